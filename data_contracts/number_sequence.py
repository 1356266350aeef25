"""What the printed page numbers of a document say about its pages: missing, doubled, out of order.

Of every page's candidates the one is chosen that makes the longest plausible run through the document; books
bound together, or a Roman preface, begin new runs. A page whose number stands outside the run is only accused
where the run proves it: there is no place for the page where it lies, or the place where it belongs is empty.
A misread number alone therefore accuses nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from data_contracts.page_numbers import PrintedNumber, Style

FindingKind = Literal["gap", "restart", "descent", "duplicate", "blank_instead_of_text"]
CRITICAL_FINDINGS: frozenset[FindingKind] = frozenset({"descent", "duplicate", "blank_instead_of_text"})

IRREGULAR_STEP_COST = 0.35
"""Of joining two numbers that skip printed pages or pass unnumbered ones; a matching page earns its weight (0 to 1)."""

LEAP = 100
"""Printed pages missing at once; more are rather a year or a price than a page number."""

NEW_STYLE_COST = LEAP_COST = 1.5
RESTART_COST = 2.5
"""Two pages in disorder must not look like a new book: only a run of three and more pays for its beginning."""

BLOCK_PAGES = 3
LOOKBACK_CANDIDATES = 48
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
        """Whether it proves a fault; a gap or a new beginning alone may be the book's own."""
        return self.kind in CRITICAL_FINDINGS


class SequenceCheck(BaseModel):
    """The number of each page that has one, and what is wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    numbers: dict[int, PrintedNumber]
    findings: tuple[NumberFinding, ...]


class _Node(NamedTuple):
    page_number: int
    value: int
    style: Style
    number: PrintedNumber


@dataclass(frozen=True)
class _Run:
    nodes: tuple[_Node, ...]

    @property
    def is_reliable(self) -> bool:
        regular = sum(_is_regular(before, after) for before, after in self.steps)
        return len(self.nodes) >= RELIABLE_RUN_PAGES and regular >= RELIABLE_REGULAR_RATIO * (len(self.nodes) - 1)

    @property
    def steps(self) -> Iterator[tuple[_Node, _Node]]:
        return pairwise(self.nodes)


def check_sequence(pages: Iterable[NumberedPage]) -> SequenceCheck:
    """Choose the page numbers of a whole document, in page order, and report what they prove."""
    pages = list(pages)
    runs = [run for run in _runs(_best_chain(pages)) if run.is_reliable]
    findings: list[NumberFinding] = []
    for run in runs:
        findings += _gaps(run, {page.page_number for page in pages if page.is_blank})
        findings += _outliers(run, pages)
        findings += _descents_within(run, pages)
    findings += _beginnings(runs)
    numbers = {node.page_number: node.number for run in runs for node in run.nodes}
    return SequenceCheck(numbers=numbers, findings=tuple(sorted(findings, key=lambda finding: finding.page_numbers)))


def _best_chain(pages: Sequence[NumberedPage]) -> list[_Node]:
    """Return the nodes of the best path through all candidates, at most one a page."""
    nodes = [_Node(page.page_number, c.value, c.style, c) for page in pages for c in page.candidates]
    scores: list[float] = []
    origins: list[int | None] = []
    best_far: int | None = None  # the best node that has fallen behind the lookback
    for index, node in enumerate(nodes):
        leaving = index - LOOKBACK_CANDIDATES - 1
        if leaving >= 0 and (best_far is None or scores[leaving] > scores[best_far]):
            best_far = leaving
        near = range(max(0, index - LOOKBACK_CANDIDATES), index)
        sources = near if best_far is None else (*near, best_far)
        gain, origin = 0.0, None
        for source in sources:
            if nodes[source].page_number < node.page_number:
                reached = scores[source] - _cost(nodes[source], node)
                if reached > gain:
                    gain, origin = reached, source
        scores.append(gain + node.number.weight)
        origins.append(origin)
    return _walk_back(nodes, scores, origins)


def _walk_back(nodes: Sequence[_Node], scores: Sequence[float], origins: Sequence[int | None]) -> list[_Node]:
    index = max(range(len(nodes)), key=scores.__getitem__) if nodes else None
    chain: list[_Node] = []
    while index is not None:
        chain.append(nodes[index])
        index = origins[index]
    return chain[::-1]


def _cost(before: _Node, after: _Node) -> float:
    if before.style != after.style:
        return NEW_STYLE_COST
    if after.value <= before.value:
        return RESTART_COST
    if after.value - before.value > LEAP:
        return LEAP_COST
    return 0.0 if _is_regular(before, after) else IRREGULAR_STEP_COST


def _is_regular(before: _Node, after: _Node) -> bool:
    return after.value - before.value == after.page_number - before.page_number


def _runs(chain: Sequence[_Node]) -> list[_Run]:
    runs: list[list[_Node]] = []
    for node in chain:
        if runs and runs[-1][-1].style == node.style and runs[-1][-1].value < node.value:
            runs[-1].append(node)
        else:
            runs.append([node])
    return [_Run(tuple(nodes)) for nodes in runs]


def _gaps(run: _Run, blank_pages: set[int]) -> Iterator[NumberFinding]:
    for before, after in run.steps:
        missing, pages_between = after.value - before.value - 1, after.page_number - before.page_number - 1
        between = before.page_number + 1
        if missing == pages_between == 1 and between in blank_pages:
            yield NumberFinding(
                kind="blank_instead_of_text",
                page_numbers=(between,),
                detail=f"page {between} is blank, but printed page {before.value + 1} belongs there "
                f"(printed {before.value} before it, {after.value} after it)",
            )
        elif missing > pages_between:
            yield NumberFinding(
                kind="gap",
                page_numbers=(before.page_number, after.page_number),
                detail=f"printed {before.value} on page {before.page_number} is followed by printed {after.value} "
                f"on page {after.page_number}; printed pages missing: {missing - pages_between}",
            )


def _outliers(run: _Run, pages: Sequence[NumberedPage]) -> Iterator[NumberFinding]:
    """Yield the pages among those of ``run`` whose own number proves that they lie in the wrong place."""
    first, last = run.nodes[0], run.nodes[-1]
    chosen = {node.page_number for node in run.nodes}
    holders = {node.value: node.page_number for node in run.nodes}
    for page in pages:
        if not first.page_number - 1 <= page.page_number <= last.page_number + 1 or page.page_number in chosen:
            continue
        has_room = _has_room(run, page.page_number)
        for value in _likeliest(page, first.style):
            if finding := _accuse(run, holders, page.page_number, value, has_room=has_room):
                yield finding
                break


def _likeliest(page: NumberedPage, style: Style) -> list[int]:
    """Return the values of the page's candidates of this style that look most like a page number."""
    same = [candidate for candidate in page.candidates if candidate.style == style]
    return [candidate.value for candidate in same if candidate.weight == same[0].weight]


def _descents_within(run: _Run, pages: Sequence[NumberedPage]) -> Iterator[NumberFinding]:
    """Yield the pages between two numbers of ``run`` that bear the numbers between, in falling order."""
    positions = {page.page_number: index for index, page in enumerate(pages)}
    for before, after in run.steps:
        previous: tuple[int, int] | None = None
        for page in pages[positions[before.page_number] + 1 : positions[after.page_number]]:
            value = next((v for v in _likeliest(page, before.style) if before.value < v < after.value), None)
            if value is None:
                continue
            if previous and value < previous[1]:
                yield NumberFinding(
                    kind="descent",
                    page_numbers=(previous[0], page.page_number),
                    detail=f"printed {previous[1]} on page {previous[0]} is followed by printed {value} "
                    f"on page {page.page_number}",
                )
            previous = page.page_number, value


def _accuse(
    run: _Run, holders: dict[int, int], page_number: int, value: int, *, has_room: bool
) -> NumberFinding | None:
    if value in holders:
        beside = abs(holders[value] - page_number) == 1
        if has_room and not (beside and not run.nodes[0].page_number < page_number < run.nodes[-1].page_number):
            return None
        pair = tuple(sorted((holders[value], page_number)))
        return NumberFinding(
            kind="duplicate", page_numbers=pair, detail=f"pages {pair[0]} and {pair[1]} both bear printed {value}"
        )
    belongs_near = run.nodes[0].value - 1 <= value <= run.nodes[-1].value + 1
    if not (belongs_near and not has_room) and not _is_empty_place(run, value, page_number):
        return None
    return NumberFinding(
        kind="descent",
        page_numbers=(page_number,),
        detail=f"page {page_number} bears printed {value} and lies out of order",
    )


def _has_room(run: _Run, page_number: int) -> bool:
    """Return whether the numbers around a page leave one for it; at the ends of a run there is always room."""
    for before, after in run.steps:
        if before.page_number < page_number < after.page_number:
            return after.value - before.value >= after.page_number - before.page_number
    return True


def _is_empty_place(run: _Run, value: int, page_number: int) -> bool:
    """Return whether exactly ``value`` is missing between two neighbours that ``page_number`` does not lie between."""
    return any(
        before.value == value - 1
        and after.value == value + 1
        and after.page_number - before.page_number <= 2
        and not before.page_number < page_number < after.page_number
        for before, after in run.steps
    )


def _beginnings(runs: Sequence[_Run]) -> Iterator[NumberFinding]:
    """Yield every new beginning; one whose numbers are just those missing in another run is a misplaced block."""
    for before, after in pairwise(runs):
        first, previous = after.nodes[0], before.nodes[-1]
        if first.style != previous.style or first.value > previous.value:
            continue
        yield NumberFinding(
            kind="descent" if any(_fits_into(run, after) for run in runs if run is not after) else "restart",
            page_numbers=(first.page_number,),
            detail=f"printed {previous.value} on page {previous.page_number} is followed by printed {first.value} "
            f"on page {first.page_number}",
        )


def _fits_into(run: _Run, block: _Run) -> bool:
    """Return whether ``block`` begins with the very number that a gap of ``run`` begins with, and goes on inside it."""
    begin = block.nodes[:BLOCK_PAGES]
    return any(
        left.value == begin[0].value - 1 and left.style == begin[0].style and begin[-1].value < right.value
        for left, right in run.steps
    )
