"""One document's pages read again: which pages are encoded how, which replay reads them, what becomes a patch."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from data_contracts.config import DigitizeConfig, ReadingConfig
from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef, StateRef
from data_contracts.patch import PagePatch
from data_contracts.result import ChunkCheckpoint, Event, PageResult, PageStatus
from data_contracts.step_request import DecodeRequest, EncodeAgainRequest, EncodeRequest
from flows.digitize import decode_in_order
from flows.execution.chunks import ChunkSteps
from tasks import plan, storage
from tasks.patches import PatchStore
from tasks.readings import Readings
from tasks.reread import Replay, plan_replays, reread

logger = logging.getLogger("tomeflow.backfill")

BACKFILLED = "backfilled"
"""Kind of the event that a page carries which was read again."""


class Rereading:
    """The pages of one document as they are, and as they are to be. Checkpoints that are missing are rebuilt."""

    def __init__(
        self, document: DocumentRef, source: Path, config: DigitizeConfig, root: str, readings: Readings
    ) -> None:
        """Look up the document's checkpoints and patches below ``root``; put what they hold into ``readings``."""
        self._document = document
        self._root = root
        self._base = config.reading
        self._steps = ChunkSteps(document, source, config, root)
        self._chunks = plan.plan_chunks(plan.parse_pages(config.pages, document.page_count), config.chunk_pages)
        self._checkpoints = decode_in_order(self._steps, self._chunks, readings.add)
        self._base_readings = readings
        self._patches = PatchStore(root, document, config.reading)
        self._chunk_of = {number: index for index, chunk in enumerate(self._chunks) for number in chunk.page_numbers}
        self._result = lru_cache(maxsize=2)(readings.chunk)
        self._readings: dict[int, ReadingConfig] = {}
        self._passing: set[str] = set()  # files of steps that nobody needs any more when the pages have been read

    def pages(self) -> Iterator[PageResult]:
        """Yield every page as it is published, one chunk in memory at a time."""
        for chunk in self._base_readings.chunks():
            yield from self._patches.apply(chunk).pages

    def stale_pages(self) -> list[int]:
        """Return the pages whose context has changed since they were read."""
        return self._patches.stale_pages(map(self._patches.apply, self._base_readings.chunks()))

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
        try:
            return self._keep(results)
        finally:
            self._drop(*self._passing)

    def _keep(self, results: Iterable[tuple[PageResult, PagePatch]]) -> tuple[dict[int, str], dict[int, str]]:
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
        for number in named:
            chunk = ChunkRef(chunk_number=1, page_numbers=(number,))
            request = EncodeRequest(self._name(chunk), reading, chunk, self._root, self._steps.scan)
            again = self._decode(chunk, self._steps.take_again(request), reading, None)
            (page,) = self._take_pages(again)
            self._drop(again.state.uri)
            yield self._patch(page, reading, memory_sha256=None)

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
        lookahead_pages = self._base.sr_swa.lookahead_pages
        states: list[str] = []
        for again in reread(replay, self._checkpoints, self._readings, lookahead_pages, self._read_chunk):
            self._drop(*states)
            states = [again.state.uri]
            yield from (page for page in self._take_pages(again) if page.page_number in replay.page_numbers)
        self._drop(*states)

    def _read_chunk(self, chunk: ChunkRef, seen: tuple[int, ...], previous: StateRef | None) -> ChunkCheckpoint:
        """Read ``chunk`` with the pages ``seen`` in sight, each anew if that is asked for, else as it was."""
        anew = {number: self._readings[number].render for number in seen if number in self._readings}
        before = (self._base_page(number) for number in seen if number not in anew)
        failed = tuple(page for page in before if page.status is PageStatus.FAILED)
        kept = tuple(self._steps.start_encoding(self._chunks[index])() for index in {self._chunk_of[n] for n in seen})
        wanted = ChunkRef(chunk_number=chunk.chunk_number, page_numbers=seen)
        features: FeaturesRef = self._steps.take_again(
            EncodeAgainRequest(self._name(chunk), self._base, wanted, self._root, self._steps.scan, anew, failed, kept)
        )
        return self._decode(chunk, features, self._base, previous)

    def _decode(
        self, chunk: ChunkRef, features: FeaturesRef, reading: ReadingConfig, previous: StateRef | None
    ) -> ChunkCheckpoint:
        """Decode ``chunk`` and drop its features; say which pages were lost, in either step."""
        self._passing.add(features.uri)
        request = DecodeRequest(self._name(chunk), reading, chunk, self._root, (features,), previous)
        again: ChunkCheckpoint = self._steps.take_again(request)
        self._passing |= {again.result_uri, again.state.uri}
        self._drop(features.uri)
        return again.model_copy(update={"isolated": {**features.isolated, **again.isolated}})

    def _take_pages(self, again: ChunkCheckpoint) -> tuple[PageResult, ...]:
        """Return the readings of a chunk and drop their file."""
        pages = self._steps.stored_result(again).pages
        self._drop(again.result_uri)
        return pages

    def _drop(self, *uris: str) -> None:
        for uri in uris:
            storage.delete(storage.join(self._root, uri))
            self._passing.discard(uri)

    def _name(self, chunk: ChunkRef) -> str:
        """Return what tells the files of ``chunk`` while it is read again from those that are kept."""
        return f"{self._document.document_id}/again-{chunk.page_numbers[0]:06d}"

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

    def _base_page(self, number: int) -> PageResult:
        index = self._chunk_of[number]
        return next(page for page in self._result(index).pages if page.page_number == number)

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
