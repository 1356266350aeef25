"""One document's pages read again: which pages are encoded how, which replay reads them, what becomes a patch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from data_contracts.config import DigitizeConfig, ReadingConfig
from data_contracts.document import DocumentRef
from data_contracts.patch import PagePatch
from data_contracts.result import ChunkResult, Event, PageResult, PageStatus
from flows.digitize import decode_in_order
from flows.execution.chunks import ChunkSteps
from flows.execution.rendering import BoundedPages
from models.features import read_features
from models.sr_swa.pages import EncodedPage, FailedPage
from models.zoo import load_model
from tasks import encode, plan, storage
from tasks.patches import PatchStore
from tasks.reread import Replay, plan_replays, read_alone, reread

logger = logging.getLogger("tomeflow.backfill")

BACKFILLED = "backfilled"
"""Kind of the event that a page carries which was read again."""


class Rereading:
    """The pages of one document as they are, and as they are to be. Checkpoints that are missing are rebuilt."""

    def __init__(self, document: DocumentRef, source: Path, config: DigitizeConfig, root: str) -> None:
        """Look up the document's checkpoints and patches below ``root``."""
        self._document = document
        self._source = source
        self._root = root
        self._base = config.reading
        self._render_seconds = config.render_timeout_seconds
        self._steps = ChunkSteps(document, source, config, root)
        self._chunks = plan.plan_chunks(plan.parse_pages(config.pages, document.page_count), config.chunk_pages)
        self._checkpoints = decode_in_order(self._steps, self._chunks)
        self._patches = PatchStore(root, document, config.reading)
        self._chunk_of = {number: index for index, chunk in enumerate(self._chunks) for number in chunk.page_numbers}
        self._chunk_pages = lru_cache(maxsize=2)(self._read_chunk_pages)
        self._readings: dict[int, ReadingConfig] = {}

    def pages(self) -> Iterator[PageResult]:
        """Yield every page as it is published, one chunk in memory at a time."""
        for chunk in self._results():
            yield from self._patches.apply(chunk).pages

    def stale_pages(self) -> list[int]:
        """Return the pages whose context has changed since they were read."""
        return self._patches.stale_pages(map(self._patches.apply, self._results()))

    def run(
        self, named: Sequence[int], stale: Sequence[int], reading: ReadingConfig, *, cascade: bool
    ) -> tuple[dict[int, str], dict[int, str]]:
        """Read the pages ``named`` with ``reading`` and keep what was read; return statuses and reasons by page.

        The ``stale`` pages are read as they were, in the memory that they should have had. A page that fails again
        keeps the reading that it had.

        Raises:
            BrokenChecksum: memory cannot be brought to where it was before a page.
        """
        if reading.model_copy(update={"render": self._base.render}) != self._base:
            results = self._read_alone(named, reading)
        else:
            results = self._read_in_memory(named, stale, reading, cascade=cascade)
        statuses, reasons = {}, {}
        for page, patch in results:
            statuses[page.page_number] = page.status.value
            logger.info("%s: page %d: %s", self._document.document_id, page.page_number, page.status.value)
            if page.error:
                reasons[page.page_number] = page.error
            if page.status is not PageStatus.FAILED:
                self._patches.write(patch)
        return statuses, reasons

    def _read_alone(self, named: Sequence[int], reading: ReadingConfig) -> Iterator[tuple[PageResult, PagePatch]]:
        """Yield each page as another model or decoder reads it: what the document's memory holds is not for that."""
        model = load_model(reading)
        for number in named:
            with self._pages(reading) as pages:
                (encoded,) = encode.encode_pages(pages.render, [number], model, look_closer=pages.look_closer)
            yield self._patch(read_alone(encoded, model, reading), reading, memory_sha256=None)

    def _read_in_memory(
        self, named: Sequence[int], stale: Sequence[int], reading: ReadingConfig, *, cascade: bool
    ) -> Iterator[tuple[PageResult, PagePatch]]:
        self._readings = {n: self._patches.read(n).reading for n in self._patches.remembered()}
        self._readings |= dict.fromkeys(named, reading)
        for replay in plan_replays(self._chunks, self._asked(named, stale, cascade=cascade), self._is_kept):
            since = self._chunks[replay.first_chunk].page_numbers[0]
            for page in self._replayed(replay):
                yield self._patch(
                    page,
                    self._readings.get(page.page_number, self._base),
                    memory_sha256=self._patches.memory_before(page.page_number, since),
                    named=page.page_number in named,
                )

    def _asked(self, named: Sequence[int], stale: Sequence[int], *, cascade: bool) -> set[int]:
        """Return the pages to be read, with those before them that changed their context if that is to be made good."""
        changed_before = {n for n in self._patches.remembered() if n < max((*named, *stale))}
        if cascade:
            first = min((*named, *stale, *changed_before))
            return {n for n in self._chunk_of if n >= first} - self._patches.read_alone()
        return {*named, *stale, *(changed_before if stale else ())}

    def _replayed(self, replay: Replay) -> Iterator[PageResult]:
        return reread(
            replay,
            self._chunks,
            self._checkpoints,
            self._readings,
            self._encode,
            self._steps.model,
            self._base,
            self._root,
        )

    def _patch(
        self, page: PageResult, reading: ReadingConfig, *, memory_sha256: str | None, named: bool = True
    ) -> tuple[PageResult, PagePatch]:
        """Return ``page`` with what to keep of it."""
        before = self._base_page(page.page_number)
        if not named and page.page_number in self._patches.page_numbers:  # the same patch, in another memory
            earlier = self._patches.read(page.page_number)
            page = page.model_copy(update={"events": (*page.events, *_backfilled(earlier.page))})
            return page, earlier.model_copy(update={"page": page, "memory_sha256": memory_sha256})
        if named or page != before:
            page = page.model_copy(update={"events": (*page.events, _event(before, page, reading, self._base, named))})
        return page, PagePatch(
            page=page,
            replaced_status=before.status,
            reading=reading,
            named=named,
            is_remembered=named and memory_sha256 is not None and bool(page.lines or before.lines),
            memory_sha256=memory_sha256,
        )

    def _encode(self, number: int) -> EncodedPage | FailedPage:
        """Return a page as it is to be read now: anew if that is asked for, else as it was."""
        if number in self._readings:
            return self._encode_anew(number, self._readings[number])
        before = self._base_page(number)
        if before.status is PageStatus.FAILED:
            return FailedPage(number, before.error or "", before.width_px, before.height_px, before.dpi)
        kept = self._chunk_pages(self._chunk_of[number])
        return kept[number] if number in kept else self._encode_anew(number, self._base)

    def _pages(self, reading: ReadingConfig) -> BoundedPages:
        return BoundedPages(self._source, self._document.kind, reading.render, self._render_seconds)

    def _encode_anew(self, number: int, reading: ReadingConfig) -> EncodedPage | FailedPage:
        with self._pages(reading) as pages:
            (encoded,) = encode.encode_pages(pages.render, [number], self._steps.model, look_closer=pages.look_closer)
        return encoded

    def _read_chunk_pages(self, index: int) -> Mapping[int, EncodedPage | FailedPage]:
        """Return the kept features of a chunk; nothing if they were collected."""
        ref = self._steps.start_encoding(self._chunks[index])()
        place = storage.join(self._root, ref.uri)
        if not storage.exists_with_sha256(place, ref.sha256):
            return {}
        return {page.page_number: page for page in read_features(storage.read_verified(place, ref.sha256))}

    def _base_page(self, number: int) -> PageResult:
        index = self._chunk_of[number]
        return next(page for page in self._result(index).pages if page.page_number == number)

    def _result(self, index: int) -> ChunkResult:
        return self._steps.stored_result(self._checkpoints[index])

    def _results(self) -> Iterator[ChunkResult]:
        return map(self._steps.stored_result, self._checkpoints)

    def _is_kept(self, index: int) -> bool:
        state = self._checkpoints[index].state
        return storage.exists_with_sha256(storage.join(self._root, state.uri), state.sha256)


def _backfilled(page: PageResult) -> list[Event]:
    return [event for event in page.events if event.kind == BACKFILLED]


def _event(before: PageResult, page: PageResult, reading: ReadingConfig, base: ReadingConfig, named: bool) -> Event:
    cause = f"was {before.status.value}{f' ({before.error})' if before.error else ''}" if named else "context changed"
    changes = "; ".join(changed_fields(base, reading)) or "the same configuration"
    return Event(kind=BACKFILLED, page_number=page.page_number, detail=f"{cause}; read again with {changes}")


def changed_fields(base: ReadingConfig, reading: ReadingConfig) -> list[str]:
    """Return what differs between two configurations, such as ``render.dpi=400``."""

    def flat(config: ReadingConfig) -> dict[str, object]:
        fields: dict[str, object] = {}
        for name, value in config.model_dump(mode="json").items():
            fields |= {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
        return fields

    old = flat(base)
    return [f"{name}={value}" for name, value in flat(reading).items() if old[name] != value]
