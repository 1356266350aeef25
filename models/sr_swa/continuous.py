"""The loop: page after page through one attention set, as a generator.

Pulls a page only when it is needed and lets it go when it is read; yields one ``PageResult`` a page, in order,
whatever happens to the page. Knows nothing about PDFs, files, Prefect, or what a model does with a page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from traceback import clear_frames
from typing import Any, TypeAlias

import torch

from data_contracts.config import SrSwaConfig
from data_contracts.errors import DecodeFailed, OutOfMemory, PageFailed, WrongModel
from data_contracts.result import Event, PageResult, PageStatus, PageTimings
from models.sr_swa.context import AttentionContext
from models.sr_swa.controller import ContextController, MemoryWatermark
from models.sr_swa.memory.state import ReferenceState, StatefulPart
from models.sr_swa.memory.store import Selector, SparseReferenceStore
from models.sr_swa.memory.window import SlotSource
from models.sr_swa.meter import PageMeasurement, PageMeter
from models.sr_swa.pages import Decoding, EncodedPage, FailedPage
from models.sr_swa.protocol import OcrModel

COMPLETE = "complete"
"""The only stop reason of a page that has been read to its end."""

Page: TypeAlias = EncodedPage | FailedPage


def continuous_decode(
    encoded_pages: Iterable[Page], model: OcrModel, config: SrSwaConfig, state: ReferenceState | None = None
) -> Iterator[PageResult]:
    """Yield the reading of each page in order. For the state afterwards, use ``ContinuousDecoder``."""
    yield from ContinuousDecoder(model, config, state).decode(encoded_pages)


class ContinuousDecoder:
    """Reads one document, chunk by chunk. Invariant: after each page its parts hold what the next page needs.

    ``config_sha256`` and the model's fingerprint are written into the state. ``watermark`` None: memory is not
    watched, and only a real lack of it shrinks the window. ``slots`` is where the window's memory comes from when
    documents share it (``pool.py``).
    """

    def __init__(
        self,
        model: OcrModel,
        config: SrSwaConfig,
        state: ReferenceState | None = None,
        *,
        config_sha256: str = "",
        watermark: MemoryWatermark | None = None,
        select: Selector = SparseReferenceStore.select_relevant,
        slots: SlotSource | None = None,
    ) -> None:
        """Allocate the attention set and take up ``state``.

        Raises:
            WrongModel: the state was written by another model.
            WrongSchema: the state lacks a part.
            ConfigError: the attention set does not fit into the model's positions.
        """
        self.context = AttentionContext(model.geometry, config, select, slots)
        self.controller = ContextController(config, watermark)
        self._model = model
        self._config_sha256 = config_sha256
        self._meter = PageMeter(model.geometry.device)
        self._next_page_number = 1
        if state is not None:
            self._take_up(state)

    def decode(self, encoded_pages: Iterable[Page], last_page_number: int | None = None) -> Iterator[PageResult]:
        """Yield the reading of each page in order, up to ``last_page_number``.

        Pages after it serve as lookahead only; the next chunk is given them again. A page is pulled when
        ``lookahead_pages`` before it are due, and released before the next one is pulled.
        """
        waiting: deque[Page] = deque()
        for page in encoded_pages:
            waiting.append(page)
            del page  # the generator must not keep a page alive that it has handed on
            if len(waiting) > self.context.config.lookahead_pages:
                if _is_past(waiting[0], last_page_number):
                    return
                yield self._turn_page(waiting)
        while waiting and not _is_past(waiting[0], last_page_number):
            yield self._turn_page(waiting)

    def state(self) -> ReferenceState:
        """Return all that the next chunk needs, as a copy."""
        self.context.settle()
        return ReferenceState.of(
            self._parts,
            model_fingerprint=self._model.fingerprint,
            config_sha256=self._config_sha256,
            next_page_number=self._next_page_number,
        )

    def take_timings(self) -> tuple[PageTimings, ...]:
        """Return the timings of the pages since the last call, and forget them."""
        return self._meter.take()

    def _turn_page(self, waiting: deque[Page]) -> PageResult:
        """Read the first of ``waiting``, with the others in sight, and take it out."""
        page_number = waiting[0].page_number
        with self._meter.page(page_number) as measurement:
            result = self._read(waiting, measurement)
        waiting.popleft()
        self._next_page_number = page_number + 1
        return result

    def _read(self, waiting: deque[Page], measurement: PageMeasurement) -> PageResult:
        """Return the reading of the first of ``waiting``; a page that is not decoded leaves memory untouched."""
        page = waiting[0]
        if isinstance(page, FailedPage):
            return self._result(page, DecodeFailed(page.error))
        if page.blank_reason is not None:
            return self._result(page, Decoding(lines=(), blank_reason=page.blank_reason))
        events = self.controller.before_page(page.page_number)
        outcome = self._attempt(waiting)
        if isinstance(outcome, OutOfMemory):
            events += self.controller.out_of_memory(page.page_number)
            outcome = self._attempt(waiting)
        if isinstance(outcome, Decoding):
            for ms in outcome.step_ms:
                measurement.step(ms)
        return self._conclude(page, outcome, events)

    def _attempt(self, waiting: Sequence[Page]) -> Decoding | PageFailed:
        """Turn the window to the first page and decode it; after a failure no trace of the page is left."""
        page = waiting[0]
        assert isinstance(page, EncodedPage)
        try:
            self.context.begin_page(page.page_number)
            self.context.follow(self.controller.window_pages, self.controller.reference_tokens)
            self._prefill(waiting)
            return self._model.decode(page, self.context)
        except (PageFailed, MemoryError, RuntimeError) as error:
            failure = _as_page_failure(error)
        self.context.abandon_page()
        return failure

    def _prefill(self, waiting: Sequence[Page]) -> None:
        """Bring the first page and those in sight into the window, as far as they can be read and are not held."""
        for page in islice(waiting, 1 + self.context.lookahead_pages):
            if isinstance(page, FailedPage) or page.blank_reason or page.page_number in self.context.window:
                continue
            self.context.window.discard_from(page.page_number)  # pages behind it have to be prefilled with it in sight
            self.context.make_room()
            try:
                self.context.window.admit(self._model.prefill(page, self.context))
            except DecodeFailed:
                if page is waiting[0]:
                    raise
                self.context.window.discard_from(page.page_number)  # its own turn will say so

    def _conclude(self, page: Page, outcome: Decoding | PageFailed, events: list[Event]) -> PageResult:
        """Give memory what the decode used, or take the page back, and say how it ended."""
        metrics, degraded_by = self.context.metrics(), self.controller.degraded_by
        if isinstance(outcome, Decoding) and outcome.lines:
            self.context.finish_page(outcome)
            used = metrics.model_dump(include={"gate_fired", "references_fetched", "references_hit"})
            events = events + self.controller.after_page(page.page_number, **used)
        else:
            self.context.abandon_page()
        return self._result(page, outcome, metrics=metrics, degraded_by=degraded_by, events=tuple(events))

    def _result(self, page: Page, outcome: Decoding | PageFailed, **details: Any) -> PageResult:
        """Return the record of a page; without ``details`` that of one for which memory was not asked."""
        status, error = _ending(outcome)
        decoding = outcome if isinstance(outcome, Decoding) else Decoding(lines=(), stop_reason="failed")
        return PageResult(
            page_number=page.page_number,
            width_px=page.width_px,
            height_px=page.height_px,
            dpi=page.dpi,
            rotation=page.rotation,
            status=status,
            error=error,
            blank_reason=decoding.blank_reason if status is PageStatus.BLANK else None,
            lines=decoding.lines,
            unread_ratio=page.unread_ratio if isinstance(page, EncodedPage) else 0.0,
            stop_reason=decoding.stop_reason,
            **{"metrics": self.context.metrics(), **details},
        )

    @property
    def _parts(self) -> dict[str, StatefulPart]:
        context = self.context
        parts: dict[str, StatefulPart] = {"window": context.window, "store": context.store, "tail": context.tail}
        return parts | {"context": context, "controller": self.controller}

    def _take_up(self, state: ReferenceState) -> None:
        if state.model_fingerprint != self._model.fingerprint:
            raise WrongModel(
                f"the state was written by model {state.model_fingerprint}, this is {self._model.fingerprint}. "
                "Continue with that model, device class and dtype, or read the document from its first page."
            )
        state.restore_into(self._parts)
        self._next_page_number = state.next_page_number


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether ``error`` says that memory ran out: ours, Python's, CUDA's, or that of torch's CPU allocator."""
    if isinstance(error, OutOfMemory | MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def _as_page_failure(error: Exception) -> PageFailed:
    """Return ``error`` as one of a page, letting go of all that the frames in its traceback hold.

    What is no failure of a page but a fault of the program is raised again.
    """
    if isinstance(error, PageFailed) or is_out_of_memory(error):
        clear_frames(error.__traceback__)
    if is_out_of_memory(error):
        return OutOfMemory(
            f"memory ran out: {str(error) or type(error).__name__}. Give less window_pages or more memory."
        )
    if isinstance(error, PageFailed):
        return type(error)(error.message)
    raise error


def _ending(outcome: Decoding | PageFailed) -> tuple[PageStatus, str | None]:
    """Return the status of a page and, unless all is well, why it has it."""
    if isinstance(outcome, PageFailed):
        return PageStatus.FAILED, outcome.message
    if outcome.lines and outcome.stop_reason == COMPLETE:
        return PageStatus.TEXT, None
    if outcome.lines:
        return PageStatus.TRUNCATED, f"the decoder stopped before the end of the page: {outcome.stop_reason}"
    if outcome.blank_reason is not None:
        return PageStatus.BLANK, None
    return PageStatus.FAILED, f"nothing was read and no reason given for a blank page (stop: {outcome.stop_reason})"


def _is_past(page: Page, last_page_number: int | None) -> bool:
    return last_page_number is not None and page.page_number > last_page_number
