"""Pages whose printed number stands outside the run they lie in: what the numbers around them prove.

* The numbers leave room for the page (11, 2, 13; 6, 7, 7, 9; a 5 between 2 and 4): its number was misread, a warning
  that names the number expected. Only pages that bear each other's expected numbers prove more: they changed places,
  critical.
* They leave no room and another page bears the same number (6, 7, 7, 8): doubled and critical if the two pages also
  read alike; a warning if they do not, or say too little to decide. A copy in the place of a lost page (6, 7, 7, 9) is
  found by what it says (``measures.find_near_duplicates``), not by its number.
* They leave no room, and pages are missing where the number belongs: the page was moved, critical.
* They leave no room, and nothing is missing where it belongs: the number of a plate or a figure, a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from data_contracts.quality.number_run import LEAP, Node, NumberedPage, NumberFinding, Run, is_regular
from data_contracts.quality.page_numbers import PrintedNumber, Style

TWO_DIGITS = 10
"""A single digit in a running head is rather a chapter's."""

Alike = Callable[[int, int], bool]


@dataclass(frozen=True)
class Outlier:
    """A page that bears other ``numbers`` than the run it lies in; ``around`` are the run's numbers beside it.

    ``around`` is None at the run's ends. ``expected`` is the number that would be the page's if the run's numbers
    beside it kept pace with the pages; None where those around it do not.
    """

    page_number: int
    numbers: tuple[PrintedNumber, ...]
    around: tuple[Node, Node] | None
    expected: int | None

    @property
    def has_room(self) -> bool:
        """Whether the numbers around leave one for each page between them; at the ends there is always room."""
        if self.around is None:
            return True
        before, after = self.around
        return after.value - before.value >= after.page_number - before.page_number


def find_outliers(run: Run, pages: Sequence[NumberedPage]) -> list[Outlier]:
    """Return the pages among those of ``run``, and beside its ends, that bear another number than one of the run."""
    first, last = run.nodes[0], run.nodes[-1]
    chosen = {node.page_number for node in run.nodes}
    outliers = []
    for page in pages:
        if first.page_number - 1 <= page.page_number <= last.page_number + 1 and page.page_number not in chosen:
            numbers = likeliest(page, first.style)
            if numbers:
                around = run.around(page.page_number)
                beside = around[0] if around else last if page.page_number > last.page_number else first
                expected = beside.value + page.page_number - beside.page_number
                keeps_pace = around is None or is_regular(*around)
                outliers.append(Outlier(page.page_number, numbers, around, expected if keeps_pace else None))
    return outliers


def likeliest(page: NumberedPage, style: Style) -> tuple[PrintedNumber, ...]:
    """Return the candidates of this style that resemble the page's number most."""
    same = [candidate for candidate in page.candidates if candidate.style == style]
    return tuple(candidate for candidate in same if candidate.weight == same[0].weight)


def judge_outliers(run: Run, outliers: Sequence[Outlier], alike: Alike) -> Iterator[NumberFinding]:
    """Yield what the numbers of the run say of the pages that stand outside it."""
    holders = {node.value: node.page_number for node in run.nodes}
    exchanged = _exchanged(outliers)
    for outlier in outliers:
        if outlier.page_number in exchanged:
            yield _out_of_order(outlier, outlier.numbers[0].value)
        elif outlier.around is not None and outlier.has_room:
            yield from _misread(outlier, *outlier.around)
        else:
            findings = (_accuse(run, holders, outlier, number, alike) for number in outlier.numbers)
            yield from list(filter(None, findings))[:1]


def _exchanged(outliers: Sequence[Outlier]) -> set[int]:
    """Return the pages that bear each other's expected numbers, in pairs or in a ring: they changed places."""
    place_of = {outlier.expected: outlier.page_number for outlier in outliers if outlier.expected is not None}
    bears = {outlier.page_number: outlier.numbers[0].value for outlier in outliers}
    follows = {page: place_of[value] for page, value in bears.items() if place_of.get(value, page) != page}
    return {page for page in follows if _comes_back(page, follows)}


def _comes_back(page: int, follows: Mapping[int, int]) -> bool:
    at = page
    return any((at := follows.get(at, 0)) == page for _ in follows)


def _misread(outlier: Outlier, before: Node, after: Node) -> Iterator[NumberFinding]:
    """Yield the misread number of a page between neighbours that bound it, unless it is none, such as a chapter's."""
    number, expected = outlier.numbers[0], outlier.expected
    like_expected = expected is not None and Levenshtein.distance(str(number.value), str(expected)) == 1
    if number.weight < 1 and not (number.style == "arabic" and like_expected and number.value >= TWO_DIGITS):
        return
    wanted = str(expected) if expected else f"a number from {before.value + 1} to {after.value - 1}"
    yield NumberFinding(
        kind="misread",
        page_numbers=(outlier.page_number,),
        detail=f"page {outlier.page_number} was read as printed {number.value}; expected is {wanted} (printed "
        f"{before.value} on page {before.page_number}, {after.value} on page {after.page_number})",
    )


def _accuse(
    run: Run, holders: Mapping[int, int], outlier: Outlier, number: PrintedNumber, alike: Alike
) -> NumberFinding | None:
    """Return what ``number`` says of a page for which the run has no room, or at one of the run's ends."""
    value, holder = number.value, holders.get(number.value)
    if holder is not None:
        if outlier.around is None and abs(holder - outlier.page_number) != 1:
            return None
        return _twice(outlier, value, holder, is_copy=alike(holder, outlier.page_number))
    if _is_missing(run, value, outlier):
        return _out_of_order(outlier, value)
    if outlier.around is None or number.weight < 1:
        return None
    return NumberFinding(
        kind="misread",
        page_numbers=(outlier.page_number,),
        detail=f"page {outlier.page_number} was read as printed {value}; the numbers around it leave no room for one",
    )


def _twice(outlier: Outlier, value: int, holder: int, *, is_copy: bool) -> NumberFinding:
    first, second = sorted((holder, outlier.page_number))
    both = f"pages {first} and {second} both bear printed {value}"
    if is_copy:
        return NumberFinding(kind="duplicate", page_numbers=(first, second), detail=both)
    return NumberFinding(
        kind="misread", page_numbers=(outlier.page_number,), detail=f"{both}, but do not read like one page"
    )


def _out_of_order(outlier: Outlier, value: int) -> NumberFinding:
    return NumberFinding(
        kind="descent",
        page_numbers=(outlier.page_number,),
        detail=f"page {outlier.page_number} bears printed {value} and lies out of order",
    )


def _is_missing(run: Run, value: int, outlier: Outlier) -> bool:
    """Return whether the page with ``value`` is missing from the run, and not just where ``outlier`` lies.

    Of an outlier at the end of the run, where nothing says that it has no room, the numbers beside must prove it.
    """
    if outlier.around and value in (run.nodes[0].value - 1, run.nodes[-1].value + 1):
        return True
    widest = LEAP if outlier.around else 2
    return any(
        before.value < value < after.value
        and after.page_number - before.page_number < after.value - before.value <= widest
        and not before.page_number < outlier.page_number < after.page_number
        for before, after in run.steps
    )
