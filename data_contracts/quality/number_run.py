"""A run of printed page numbers: those that rise through a document together, and what they may be found to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from data_contracts.quality.page_numbers import PrintedNumber, Style

FindingKind = Literal["gap", "restart", "misread", "descent", "duplicate", "blank_instead_of_text"]
CRITICAL_FINDINGS: frozenset[FindingKind] = frozenset({"descent", "duplicate", "blank_instead_of_text"})

LEAP = 100
"""Printed pages missing at once; more are rather a year or a price than a page number."""

RELIABLE_RUN_PAGES = 5
RELIABLE_REGULAR_RATIO = 1 / 3
"""A run in which fewer steps keep pace with the pages is made of other numbers than page numbers."""


class NumberedPage(BaseModel):
    """What the checks need of a page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page_number: int
    candidates: tuple[PrintedNumber, ...] = ()
    is_blank: bool = False


class NumberFinding(BaseModel):
    """Something the printed numbers say; ``page_numbers`` are the document's, 1-based."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: FindingKind
    page_numbers: tuple[int, ...]
    detail: str

    @property
    def is_critical(self) -> bool:
        """Whether it proves a fault; a gap or a new beginning may be the book's own, a misread number the reader's."""
        return self.kind in CRITICAL_FINDINGS


class Node(NamedTuple):
    """The number that a page bears."""

    page_number: int
    value: int
    style: Style
    number: PrintedNumber


def is_regular(before: Node, after: Node) -> bool:
    """Return whether the numbers keep pace with the pages."""
    return after.value - before.value == after.page_number - before.page_number


@dataclass(frozen=True)
class Run:
    """Numbers of one style that rise from page to page."""

    nodes: tuple[Node, ...]

    @property
    def is_reliable(self) -> bool:
        """Whether these are page numbers: enough of them, and enough that keep pace with the pages."""
        regular = sum(is_regular(before, after) for before, after in self.steps)
        return len(self.nodes) >= RELIABLE_RUN_PAGES and regular >= RELIABLE_REGULAR_RATIO * (len(self.nodes) - 1)

    def around(self, page_number: int) -> tuple[Node, Node] | None:
        """Return the numbers of the run that ``page_number`` lies between; None at the ends."""
        inside = (pair for pair in self.steps if pair[0].page_number < page_number < pair[1].page_number)
        return next(inside, None)

    @property
    def steps(self) -> Iterator[tuple[Node, Node]]:
        """The pairs of neighbouring numbers."""
        return pairwise(self.nodes)
