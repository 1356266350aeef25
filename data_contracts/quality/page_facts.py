"""The facts that the suites judge: one row a page and one row a document, computed once and in one sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import linear_regression, median
from typing import Any

from pydantic import BaseModel, ConfigDict

from data_contracts.quality.calibration import predicted_cer
from data_contracts.quality.measures import (
    TextMeasures,
    find_near_duplicates,
    find_same_scans,
    measure_text,
    reads_alike,
)
from data_contracts.quality.number_run import FindingKind, NumberedPage, NumberFinding
from data_contracts.quality.number_sequence import SequenceCheck, check_sequence
from data_contracts.quality.page_numbers import read_printed_numbers
from data_contracts.result import PageResult, PageStatus, PageTimings

TREND_PAGES = 12
"""Fewer timed pages show noise, not a trend."""

FAULT_COLUMNS: dict[FindingKind, str] = {
    "descent": "order_fault",
    "duplicate": "number_fault",
    "blank_instead_of_text": "blank_fault",
    "misread": "misread_number",
    "gap": "gap",
    "restart": "restart",
}


class PageFacts(BaseModel):
    """What is known of one page beyond its reading. A fault column is empty or says what is wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page_number: int
    status: PageStatus
    characters: int
    confidence: float | None
    predicted_cer: float | None = None
    cer: float | None = None
    measures: TextMeasures
    unread_ratio: float = 0.0
    references_fetched: int
    references_hit: int
    printed_number: int | None = None
    printed_style: str | None = None
    order_fault: str = ""
    number_fault: str = ""
    blank_fault: str = ""
    near_duplicate_fault: str = ""
    misread_number: str = ""
    gap: str = ""
    restart: str = ""

    def as_row(self) -> dict[str, Any]:
        """Return the flat row that a suite judges."""
        return {**self.model_dump(mode="json", exclude={"measures"}), **self.measures.model_dump()}


class DocumentFacts(BaseModel):
    """What is known of a document as a whole; null where too little was measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lost_pages: str = ""
    unasked_pages: str = ""
    doubled_pages: str = ""
    hit_ratio: float | None = None
    references_fetched: int = 0
    memory_slope_bytes: float | None = None
    latency_drift_ratio: float | None = None


def gather_page_facts(pages: Iterable[PageResult], digests: Mapping[int, str] | None = None) -> list[PageFacts]:
    """Return the facts of all pages; ``digests`` are those of their pictures (``scan_digest.py``)."""
    gathering = FactsInPassing()
    for page in pages:
        gathering.add(page)
    return gathering.facts(digests or {})


class FactsInPassing:
    """Gathers the facts of pages that pass by one after another.

    Invariant: keeps no reading, only what the neighbours are asked for.
    """

    def __init__(self) -> None:
        """Begin without a page."""
        self._facts: list[PageFacts] = []
        self._numbered: list[NumberedPage] = []
        self._texts: list[tuple[int, str]] = []

    def add(self, page: PageResult) -> None:
        """Take the next page in."""
        text = page.text
        self._numbered.append(
            NumberedPage(
                page_number=page.page_number,
                candidates=read_printed_numbers(page),
                is_blank=page.status is PageStatus.BLANK,
            )
        )
        self._texts.append((page.page_number, text))
        self._facts.append(
            PageFacts(
                page_number=page.page_number,
                status=page.status,
                characters=len("".join(text.split())),
                confidence=page.confidence,
                predicted_cer=predicted_cer(page),
                measures=measure_text(page),
                unread_ratio=page.unread_ratio,
                references_fetched=page.metrics.references_fetched,
                references_hit=page.metrics.references_hit,
            )
        )

    def facts(self, digests: Mapping[int, str]) -> list[PageFacts]:
        """Return the facts of all pages; ``digests`` are those of their pictures, by page number."""
        texts = self._texts
        text_of = dict(texts)
        check = check_sequence(self._numbered, lambda first, second: reads_alike(text_of[first], text_of[second]))
        near_duplicates = {copy: f"page {copy} reads like page {first}" for first, copy in find_near_duplicates(texts)}
        for first, copy in find_same_scans(texts, digests):
            near_duplicates[copy] = f"page {copy} is the same scan as page {first} and reads like it"
        return [_with_neighbours(page, check, _faults(check.findings), near_duplicates) for page in self._facts]


def _faults(findings: Sequence[NumberFinding]) -> dict[int, dict[str, str]]:
    """Return page number -> column -> what is wrong. Of a pair of equal numbers the later page is the doubtful one."""
    faults: dict[int, dict[str, str]] = {}
    for finding in findings:
        accused = finding.page_numbers if finding.kind == "descent" else finding.page_numbers[-1:]
        for page_number in accused:
            faults.setdefault(page_number, {})[FAULT_COLUMNS[finding.kind]] = finding.detail
    return faults


def _with_neighbours(
    page: PageFacts, check: SequenceCheck, faults: Mapping[int, Mapping[str, str]], near_duplicates: Mapping[int, str]
) -> PageFacts:
    number = check.numbers.get(page.page_number)
    return page.model_copy(
        update={
            "printed_number": number.value if number else None,
            "printed_style": number.style if number else None,
            "near_duplicate_fault": near_duplicates.get(page.page_number, ""),
            **faults.get(page.page_number, {}),
        }
    )


def gather_document_facts(
    selected: Sequence[int], pages: Sequence[PageFacts], timings: Mapping[int, PageTimings]
) -> DocumentFacts:
    """Return the facts of the whole document; ``timings`` are those of pages that were decoded in this run."""
    numbers = [page.page_number for page in pages]
    fetched = sum(page.references_fetched for page in pages)
    hits = sum(page.references_hit for page in pages)
    timed = [timings[number] for number in sorted(set(numbers)) if number in timings]
    return DocumentFacts(
        lost_pages=_listed(set(selected) - set(numbers)),
        unasked_pages=_listed(set(numbers) - set(selected)),
        doubled_pages=_listed({n for n, count in Counter(numbers).items() if count > 1}),
        hit_ratio=hits / fetched if fetched else None,
        references_fetched=fetched,
        memory_slope_bytes=memory_slope_bytes(timed),
        latency_drift_ratio=latency_drift_ratio(timed),
    )


def memory_slope_bytes(timed: Sequence[PageTimings]) -> float | None:
    """Return the growth of peak memory a page over the second half [bytes]; the first half loads and warms up."""
    peaks = [timing.peak_memory_bytes for timing in timed if timing.peak_memory_bytes]
    later = peaks[len(peaks) // 2 :]
    return linear_regression(range(len(later)), later).slope if len(peaks) >= TREND_PAGES else None


def latency_drift_ratio(timed: Sequence[PageTimings]) -> float | None:
    """Return the median page time of the last third over that of the first."""
    if len(timed) < TREND_PAGES:
        return None
    third = len(timed) // 3
    first, last = (median(t.decode_ms for t in part) for part in (timed[:third], timed[-third:]))
    return last / first if first else None


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
