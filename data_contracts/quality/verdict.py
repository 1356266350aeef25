"""What the contracts said of a document: every check, the pages in quarantine with their reasons, the releases.

A verdict is on the reading, not on the reader: released pages stay listed with their reasons, beside the name of
the person who took them on and why.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from data_contracts.records import FrozenRecord
from data_contracts.result import GateStatus

Severity = Literal["critical", "warning"]

LISTED_PAGES = 12
"""Page numbers named in a message before it says how many more there are."""


class PageReason(FrozenRecord):
    """What one expectation says of one page."""

    page_number: int = Field(ge=1)
    reason: str


class Evaluation(FrozenRecord):
    """The outcome of one expectation over one document."""

    suite: Literal["pages", "document"]
    expectation: str
    severity: Severity
    success: bool
    detail: str = Field("", description="of the whole document; empty when the pages say it")
    pages: tuple[PageReason, ...] = ()


class QuarantinedPage(FrozenRecord):
    """A page with at least one critical failure."""

    page_number: int = Field(ge=1)
    reasons: tuple[str, ...] = Field(min_length=1)


class Release(FrozenRecord):
    """A person's decision to publish a page in spite of its reasons."""

    page_number: int = Field(ge=1)
    why: str = Field(min_length=1)
    released_by: str = Field(min_length=1)
    released_at: datetime


class Verdict(FrozenRecord):
    """The verdict on one document, under one reading configuration."""

    schema_version: Literal[1] = 1
    document_id: str
    document_sha256: str
    config_sha256: str
    run_id: str
    quality_version: int
    max_quarantined_ratio: float
    min_stopping_pages: int = 1
    selected_pages: int = Field(ge=0)
    failing_pages: tuple[QuarantinedPage, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    releases: tuple[Release, ...] = ()

    @property
    def released(self) -> dict[int, Release]:
        """The releases by page number; of several of a page the last counts."""
        return {release.page_number: release for release in self.releases}

    @property
    def quarantined(self) -> tuple[QuarantinedPage, ...]:
        """The failing pages that nobody has released."""
        released = self.released
        return tuple(page for page in self.failing_pages if page.page_number not in released)

    @property
    def quarantined_ratio(self) -> float:
        """Quarantined pages over selected pages."""
        return len(self.quarantined) / self.selected_pages if self.selected_pages else 0.0

    @property
    def document_reasons(self) -> tuple[str, ...]:
        """Why the document as a whole may not be published; empty when it may."""
        failed = [e for e in self.evaluations if e.suite == "document" and e.severity == "critical" and not e.success]
        reasons = [f"{e.expectation}: {e.detail}" for e in failed]
        enough = len(self.quarantined) >= self.min_stopping_pages
        if enough and self.quarantined_ratio > self.max_quarantined_ratio:
            reasons.append(
                f"{len(self.quarantined)} of {self.selected_pages} pages are quarantined "
                f"({self.quarantined_ratio:.1%}, allowed {self.max_quarantined_ratio:.1%})"
            )
        return tuple(reasons)

    @property
    def is_publishable(self) -> bool:
        """Whether the document may go on to the output folder, quarantined pages marked."""
        return not self.document_reasons

    @property
    def warnings(self) -> tuple[Evaluation, ...]:
        """The failed expectations that quarantine nothing."""
        return tuple(e for e in self.evaluations if e.severity == "warning" and not e.success)

    def gate_statuses(self) -> dict[int, GateStatus]:
        """Return what the gate says of each failing page; every other selected page has passed."""
        released = self.released
        return {
            page.page_number: GateStatus.RELEASED if page.page_number in released else GateStatus.QUARANTINED
            for page in self.failing_pages
        }

    @property
    def summary(self) -> str:
        """One line for people: what fails, which pages, why."""
        parts = [*self.document_reasons]
        parts += [f"page {page.page_number}: {'; '.join(page.reasons)}" for page in self.quarantined[:LISTED_PAGES]]
        if len(self.quarantined) > LISTED_PAGES:
            parts.append(f"and {len(self.quarantined) - LISTED_PAGES} more pages")
        return ". ".join(parts)
