"""What the printed page numbers of a document say about its pages: missing, doubled, out of order.

Of every page's candidates the one is chosen that makes the longest plausible run through the document; books
bound together, or a Roman preface, begin new runs. A page whose number stands outside the run is judged by the
numbers around it (``number_outliers.py``): a misread number alone accuses nobody.

A blank page where the numbers leave room for exactly one printed page is critical; printed pages missing without a
page in their place (a gap) are the book's own more often than not, a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from pydantic import BaseModel, ConfigDict

from data_contracts.quality.number_outliers import Alike, find_outliers, judge_outliers, likeliest
from data_contracts.quality.number_run import LEAP, Node, NumberedPage, NumberFinding, Run, is_regular
from data_contracts.quality.page_numbers import PrintedNumber

IRREGULAR_STEP_COST = 0.35
"""Of joining two numbers that skip printed pages or pass unnumbered ones; a matching page earns its weight (0 to 1)."""

NEW_STYLE_COST = LEAP_COST = 1.5
RESTART_COST = 2.5
"""Two pages in disorder must not pass for a new book: only a run of three and more pays for its beginning."""

BLOCK_PAGES = 3
LOOKBACK_CANDIDATES = 48


class SequenceCheck(BaseModel):
    """The number of each page that has one, and what is wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    numbers: dict[int, PrintedNumber]
    findings: tuple[NumberFinding, ...]


def check_sequence(pages: Iterable[NumberedPage], alike: Alike = lambda first, second: True) -> SequenceCheck:
    """Choose the page numbers of a whole document, in page order, and report what they prove.

    ``alike`` says of two page numbers whether these pages read so much alike that one may be a copy of the other;
    it is asked of pages that bear the same number. Without it the numbers alone decide.
    """
    pages = list(pages)
    runs = [run for run in _runs(_best_chain(pages)) if run.is_reliable]
    findings: list[NumberFinding] = []
    for run in runs:
        findings += _gaps(run, {page.page_number for page in pages if page.is_blank})
        findings += judge_outliers(run, find_outliers(run, pages), alike)
        findings += _descents_within(run, pages)
    findings += _beginnings(runs)
    numbers = {node.page_number: node.number for run in runs for node in run.nodes}
    return SequenceCheck(numbers=numbers, findings=tuple(sorted(findings, key=lambda finding: finding.page_numbers)))


def _best_chain(pages: Sequence[NumberedPage]) -> list[Node]:
    """Return the nodes of the best path through all candidates, at most one a page."""
    nodes = [Node(page.page_number, c.value, c.style, c) for page in pages for c in page.candidates]
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


def _walk_back(nodes: Sequence[Node], scores: Sequence[float], origins: Sequence[int | None]) -> list[Node]:
    index = max(range(len(nodes)), key=scores.__getitem__) if nodes else None
    chain: list[Node] = []
    while index is not None:
        chain.append(nodes[index])
        index = origins[index]
    return chain[::-1]


def _cost(before: Node, after: Node) -> float:
    if before.style != after.style:
        return NEW_STYLE_COST
    if after.value <= before.value:
        return RESTART_COST
    if after.value - before.value > LEAP:
        return LEAP_COST
    return 0.0 if is_regular(before, after) else IRREGULAR_STEP_COST


def _runs(chain: Sequence[Node]) -> list[Run]:
    runs: list[list[Node]] = []
    for node in chain:
        if runs and runs[-1][-1].style == node.style and runs[-1][-1].value < node.value:
            runs[-1].append(node)
        else:
            runs.append([node])
    return [Run(tuple(nodes)) for nodes in runs]


def _gaps(run: Run, blank_pages: set[int]) -> Iterator[NumberFinding]:
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


def _descents_within(run: Run, pages: Sequence[NumberedPage]) -> Iterator[NumberFinding]:
    """Yield the pages between two numbers of ``run`` that bear the numbers between, in falling order."""
    positions = {page.page_number: index for index, page in enumerate(pages)}
    for before, after in run.steps:
        previous: tuple[int, int] | None = None
        for page in pages[positions[before.page_number] + 1 : positions[after.page_number]]:
            value = next((n.value for n in likeliest(page, before.style) if before.value < n.value < after.value), None)
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


def _beginnings(runs: Sequence[Run]) -> Iterator[NumberFinding]:
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


def _fits_into(run: Run, block: Run) -> bool:
    """Return whether ``block`` begins with the very number that a gap of ``run`` begins with, and goes on inside it."""
    begin = block.nodes[:BLOCK_PAGES]
    return any(
        left.value == begin[0].value - 1 and left.style == begin[0].style and begin[-1].value < right.value
        for left, right in run.steps
    )
