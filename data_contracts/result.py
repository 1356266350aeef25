"""What a reading is: words, lines, pages, chunks.

``PageResult`` holds only what is a function of the page, the configuration and the state: two runs of
the same document give equal records. Times and process memory stand apart, in ``PageTimings``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from data_contracts.document import StateRef
from data_contracts.geometry import Box, Quad
from data_contracts.records import FrozenRecord


class PageStatus(StrEnum):
    """How the reading of a page ended; each selected page has exactly one."""

    TEXT = "text"
    BLANK = "blank"
    FAILED = "failed"
    TRUNCATED = "truncated"


class GateStatus(StrEnum):
    """What the contracts said of a page."""

    PASSED = "passed"
    QUARANTINED = "quarantined"
    RELEASED = "released"


class BlankReason(StrEnum):
    """Why a page without text has none; each is a verdict on evidence in the pixels."""

    EMPTY = "empty"
    PICTURE_ONLY = "picture_only"
    SOLID = "solid"
    SHOW_THROUGH = "show_through"


class Word(FrozenRecord):
    """A run of characters between spaces; in Chinese, a run of characters of a line.

    Boxes are in pixels of the upright page image (after ``PageResult.rotation``), top-left origin.
    """

    text: str
    box: Box
    confidence: float = Field(ge=0, le=1)


class Line(FrozenRecord):
    """One text line, in reading order. Joining ``words`` with ``joiner`` gives ``text``.

    Where words are not written apart (Chinese) the joiner is empty, and a word before a space carries it.
    """

    text: str
    box: Box
    quad: Quad = Field(description="corners as printed: top left, top right, bottom right, bottom left of the text")
    confidence: float = Field(ge=0, le=1)
    words: tuple[Word, ...]
    direction: Literal["horizontal", "vertical"] = "horizontal"
    joiner: Literal["", " "] = " "
    read_by: str = Field("ctc", description="which part decided: ctc hypothesis, decoder, or a rule")
    helped_by_pages: tuple[int, ...] = Field((), description="earlier pages on which a word stood that was mended here")


class Event(FrozenRecord):
    """Something that happened while a page was decoded and that an operator may want to know."""

    kind: str
    page_number: int = Field(ge=1)
    detail: str


class PageMetrics(FrozenRecord):
    """The deterministic measures of one page's decoding. Ratios are null when nothing was counted."""

    live_kv_bytes: int = Field(0, ge=0, description="window, references in use, prompt and tail [bytes]")
    store_kv_bytes: int = Field(0, ge=0, description="reference store, landmarks included [bytes]")
    gate_fired: int = Field(0, ge=0, description="how often the gate asked for references")
    references_fetched: int = Field(0, ge=0)
    references_hit: int = Field(0, ge=0)
    window_pages: int = Field(0, ge=0)
    top_k: int = Field(0, ge=0)
    reference_tokens: int = Field(0, ge=0)

    @property
    def hit_ratio(self) -> float | None:
        """Hits over fetches; None when nothing was fetched."""
        return self.references_hit / self.references_fetched if self.references_fetched else None


class PageTimings(FrozenRecord):
    """What was measured on this machine in this run; never part of a reading."""

    page_number: int = Field(ge=1)
    decode_ms: float = Field(ge=0)
    step_latency_p50_ms: float | None = None
    step_latency_p95_ms: float | None = None
    peak_memory_bytes: int = Field(0, ge=0)


class PageResult(FrozenRecord):
    """The reading of one page. Equal for equal page, configuration, model and state."""

    page_number: int = Field(ge=1)
    width_px: int = Field(ge=0, description="of the upright page image; 0 when the page could not be rendered")
    height_px: int = Field(ge=0)
    dpi: float = Field(ge=0)
    rotation: Literal[0, 90, 180, 270] = Field(0, description="clockwise turn that made the rendered page upright")
    status: PageStatus
    blank_reason: BlankReason | None = None
    error: str | None = Field(None, description="why a failed or truncated page is so")
    lines: tuple[Line, ...] = ()
    unread_ratio: float = Field(0.0, ge=0, le=1, description="printed lines that no character accounts for [ratio]")
    stop_reason: str = "complete"
    degraded_by: Literal["memory", "recall"] | None = None
    stale_context: bool = False
    metrics: PageMetrics = PageMetrics()
    events: tuple[Event, ...] = ()

    @model_validator(mode="after")
    def _status_agrees_with_the_rest(self) -> Self:
        if self.status is PageStatus.BLANK and (self.blank_reason is None or self.lines):
            raise ValueError(f"page {self.page_number}: a blank page has a reason and no lines")
        if self.status in (PageStatus.FAILED, PageStatus.TRUNCATED) and not self.error:
            raise ValueError(f"page {self.page_number}: a {self.status} page says why")
        if self.status is PageStatus.TEXT and not self.lines:
            raise ValueError(f"page {self.page_number}: a text page has lines")
        return self

    @property
    def text(self) -> str:
        """The lines, one a line, without a trailing newline."""
        return "\n".join(line.text for line in self.lines)

    @property
    def confidence(self) -> float | None:
        """Mean confidence over the characters; None without text."""
        weights = [len(line.text) for line in self.lines]
        if not sum(weights):
            return None
        return sum(w * line.confidence for w, line in zip(weights, self.lines, strict=True)) / sum(weights)


class ChunkResult(FrozenRecord):
    """The pages of one chunk and where the state after it lies; stored as one file, equal for equal input."""

    schema_version: Literal[1] = 1
    pages: tuple[PageResult, ...]
    state: StateRef


class ChunkCheckpoint(FrozenRecord):
    """The persisted result of a decode task: small, and pointing with sha256 to the chunk's result file.

    ``result_uri`` is relative to the work folder, so that the folder can be moved.
    """

    chunk_number: int = Field(ge=1)
    page_numbers: tuple[int, ...]
    result_uri: str
    result_sha256: str
    state: StateRef
    isolated: dict[int, str] = Field({}, description="pages that were not read, and why")
    timings: tuple[PageTimings, ...] = Field((), description="of the run that made it; in no file that is compared")


class DocumentReport(FrozenRecord):
    """What a run says of one document; the object that ``tomeflow run --json`` prints."""

    id: str
    output: str
    pages: int = Field(ge=0)
    status_counts: dict[str, int]
    seconds: float
    pages_per_second: float
    peak_memory_bytes: int
    published: bool
    error: str | None = None
    exit_code: int = 0
