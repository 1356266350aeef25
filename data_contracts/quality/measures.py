"""What a page's text alone says about its reading: repetition, strange characters, near-duplicates among the pages.

Pure functions of the text; thresholds live in ``QualityConfig``. Distinct-n is the share of different
n-grams among all n-grams of a page (arXiv 2606.23050, there over model tokens; here over words, and over
characters where words are not written apart): a decoder caught in a loop repeats long n-grams, prose does not.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from data_contracts.result import PageResult
from data_contracts.text import is_ideographic

HASH_BASE, HASH_MODULUS = 1_000_003, (1 << 61) - 1
"""Of a rolling hash: over the few thousand n-grams of a page a collision is a matter of 1 in 10^11."""

SHORT_NGRAM = 20
LONG_NGRAM = 35
TWIN_CHARACTERS = 200
"""Shorter texts, such as part titles and empty forms, may stand in a book twice."""

TWIN_LINE_CHARACTERS = 20
TWIN_LINE_RATIO = 0.9
TWIN_LINES = 5
ALIKE_NGRAM = 8
ALIKE_RATIO = 0.3
"""Of the 8-grams of two scans of one page at 5 % wrong letters each, 44 % stay equal; of two pages of one book, mostly
under 10 %, of catalogues and family trees up to 23 %."""
SAME_SCAN_CHARACTERS = 6
"""Letters and digits; fewer say too little to call a page a copy: black boxes, ornaments, a number alone."""

COMMON_LINE_PAGES = 8
"""A line on more pages than this is a running head and proves nothing."""

_ORDINARY = frozenset("LMNPSZ")
"""Letters, marks, numbers, punctuation, symbols, separators: all that print can show."""

SCRIPT_SHARE = 0.05
LOOP_PERIOD_LINES = 4
"""Longest block of lines whose repetition is sought."""

LOOP_LINE_CHARACTERS = 4
"""Ditto marks, dots and numbers in tables repeat by right."""


class TextMeasures(BaseModel):
    """Measures of one page's text; ratios are null where there is too little text to say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    distinct_20_ratio: float | None = Field(None, ge=0, le=1, description="different 20-grams among all [ratio]")
    distinct_35_ratio: float | None = Field(None, ge=0, le=1, description="different 35-grams among all [ratio]")
    repeated_lines: int = Field(0, ge=0, description="longest run of equal neighbouring blocks of lines [lines]")
    odd_character_ratio: float = Field(0.0, ge=0, le=1, description="characters that no print shows [ratio]")
    script_count: int = Field(0, ge=0, description="scripts that make up at least 5 % of the letters [scripts]")


def measure_text(page: PageResult) -> TextMeasures:
    """Return the measures of ``page``; a page without text has none to speak of."""
    text = page.text
    units: Sequence[Hashable] = [c for c in text if not c.isspace()] if is_ideographic(text) else text.split()
    return TextMeasures(
        distinct_20_ratio=distinct_ratio(units, SHORT_NGRAM),
        distinct_35_ratio=distinct_ratio(units, LONG_NGRAM),
        repeated_lines=longest_loop([line.text.strip() for line in page.lines]),
        odd_character_ratio=odd_character_ratio(text),
        script_count=count_scripts(text),
    )


def distinct_ratio(units: Sequence[Hashable], length: int) -> float | None:
    """Return the share of different n-grams of ``length`` units; None when there are fewer units."""
    total = len(units) - length + 1
    if total < 1:
        return None
    numbers: dict[Hashable, int] = {}
    leaving_weight = pow(HASH_BASE, length, HASH_MODULUS)
    seen, rolling = set(), 0
    ids = [numbers.setdefault(unit, len(numbers) + 1) for unit in units]
    for index, entering in enumerate(ids):
        leaving = ids[index - length] if index >= length else 0
        rolling = (rolling * HASH_BASE + entering - leaving * leaving_weight) % HASH_MODULUS
        if index >= length - 1:
            seen.add(rolling)
    return len(seen) / total


def longest_loop(lines: Sequence[str]) -> int:
    """Return how many lines merely repeat the one to four lines before them, in the longest such run."""
    longest = 0
    for period in range(1, LOOP_PERIOD_LINES + 1):
        run = 0
        for before, line in zip(lines, lines[period:], strict=False):
            run = run + 1 if line == before and len(line) >= LOOP_LINE_CHARACTERS else 0
            longest = max(longest, run if run >= period else 0)
    return longest


def odd_character_ratio(text: str) -> float:
    """Return the share of characters that no print shows: controls, unassigned, private use, replacements."""
    counts = Counter(text)
    visible = {character: count for character, count in counts.items() if not character.isspace()}
    odd = sum(
        count
        for character, count in visible.items()
        if unicodedata.category(character)[0] not in _ORDINARY or character == "\N{REPLACEMENT CHARACTER}"
    )
    return odd / sum(visible.values()) if visible else 0.0


def count_scripts(text: str) -> int:
    """Return how many scripts (Latin, Greek, CJK ...) make up at least 5 % of the letters each."""
    scripts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            scripts[_script(character)] += count
    return sum(count >= SCRIPT_SHARE * scripts.total() for count in scripts.values())


def _script(letter: str) -> str:
    """Return the first word of the letter's Unicode name: the script, for all scripts that print books."""
    return unicodedata.name(letter, "UNNAMED").split()[0]


def find_near_duplicates(pages: Iterable[tuple[int, str]]) -> list[tuple[int, int]]:
    """Return pairs of page numbers (first, copy) whose texts are the same but for white space and case.

    ``pages`` are (page number, text). A page photographed twice reads alike, not always equally: pages also
    count as near-duplicates when nine in ten of their longer lines are equal.
    """
    holders: dict[str, int] = {}
    lines_of: dict[int, frozenset[str]] = {}
    by_line: dict[str, list[int]] = {}
    near_duplicates: list[tuple[int, int]] = []
    for page_number, text in pages:
        key = "".join(text.split()).casefold()
        if len(key) < TWIN_CHARACTERS:
            continue
        lines = frozenset(line for line in map(_line_key, text.splitlines()) if len(line) >= TWIN_LINE_CHARACTERS)
        first = holders.setdefault(key, page_number)
        if first == page_number:
            first = _near_duplicate(lines, lines_of, by_line) or page_number
        if first != page_number:
            near_duplicates.append((first, page_number))
            continue
        lines_of[page_number] = lines
        for line in lines:
            by_line.setdefault(line, []).append(page_number)
    return near_duplicates


def reads_alike(first: str, second: str) -> bool:
    """Return whether two texts are those of one page, scanned or read twice; short texts never are.

    Asked of pages that other evidence makes suspicious: it recognises copies with many reading errors too.
    """
    keys = [_line_key(text) for text in (first, second)]
    if min(map(len, keys)) < TWIN_CHARACTERS:
        return False
    left, right = ({key[i : i + ALIKE_NGRAM] for i in range(len(key) - ALIKE_NGRAM + 1)} for key in keys)
    return len(left & right) >= ALIKE_RATIO * min(len(left), len(right))


def find_same_scans(pages: Iterable[tuple[int, str]], digests: Mapping[int, str]) -> list[tuple[int, int]]:
    """Return pairs of page numbers (first, copy) with the same picture and the same text, if it says anything.

    ``pages`` are (page number, text), ``digests`` those of the pictures. Either alone proves nothing: a born-digital
    page may have the same emblem as all others, and a form may say little. Almost empty pages are no copies.
    """
    holders: dict[tuple[str, str], int] = {}
    copies: list[tuple[int, int]] = []
    for page_number, text in pages:
        key = _line_key(text)
        if page_number in digests and sum(map(str.isalnum, key)) >= SAME_SCAN_CHARACTERS:
            first = holders.setdefault((digests[page_number], key), page_number)
            if first != page_number:
                copies.append((first, page_number))
    return copies


def _line_key(line: str) -> str:
    return "".join(line.split()).casefold()


def _near_duplicate(
    lines: frozenset[str], lines_of: dict[int, frozenset[str]], by_line: dict[str, list[int]]
) -> int | None:
    if len(lines) < TWIN_LINES:
        return None
    shared = Counter(
        page for line in lines for page in by_line.get(line, ()) if len(by_line[line]) <= COMMON_LINE_PAGES
    )
    for page, count in shared.most_common(1):
        if count >= TWIN_LINE_RATIO * max(len(lines), len(lines_of[page])):
            return page
    return None
