"""Typesetting the sample book: words become printed lines at places on pages, with the fonts PyMuPDF carries.

A ``PrintedPage`` is both what is drawn and the truth, so the two cannot disagree. Lengths are in points, origin at
the top left; knows nothing of pixels, paper or scanners.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from flows.sample import words as sample_words
from flows.sample.words import Cast, Entry
from tasks.sources.pdf.mupdf import mupdf

PAGE_WIDTH, PAGE_HEIGHT = 432.0, 648.0  # 6 by 9 inches, a common octavo
LEFT, RIGHT, TOP, BOTTOM = 54.0, 378.0, 76.0, 600.0  # of the text
HEAD_Y, FOOT_Y = 54.0, 622.0
ROMAN, ITALIC, BOLD, CHINESE = "tiro", "tiit", "tibo", "cjk"

NOVEL_SIZE, NOVEL_LEADING, NOVEL_INDENT = 10.5, 13.6, 14.0
DICTIONARY_SIZE, DICTIONARY_LEADING, DICTIONARY_INDENT, GUTTER = 8.6, 10.6, 8.0, 18.0
CHINESE_SIZE, CHINESE_LEADING = 12.0, 20.0
HEAD_SIZE = 8.5
WIDEST_SPACE_RATIO = 2.4  # a line whose spaces would be wider than this is left ragged
PAGES_PER_CHAPTER = 4
CHAPTER_HEADING_SLOTS = 8
PAGES_PER_VOLUME = 64  # of the dictionary: its made-up words do not last for more
ENTRIES_PER_PAGE = 45  # a little more than fit, so that no page lacks articles
# Between two consonants amid vowels, with three letters at least on either side, as English mostly divides.
_MAY_BE_DIVIDED = re.compile("(?<=[a-z][aeiou][b-df-hj-np-tv-z])(?=[b-dfgj-np-tv-z][aeiou][a-z])")
ROMAN_NUMERALS = (
    (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
NOT_AT_LINE_START = "，。；：？！、」"
NOT_AT_LINE_END = "「"

WORDS_MEASURED = 8192  # widths kept: the vocabulary is small, measuring goes through MuPDF

NOVEL_TITLE = "The Keepers of the Light"
CHINESE_TITLE = "南浦旧闻"


@dataclass(frozen=True)
class Mark:
    """A piece of text on the page; ``y`` is the base line."""

    text: str
    x: float
    y: float
    font: str
    size: float


@dataclass
class PrintedPage:
    """One page. ``lines`` is the truth, in reading order; ``marks`` and ``rules`` are what is drawn."""

    page_number: int
    lines: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    rules: list[tuple[float, float, float, float]] = field(default_factory=list)

    @property
    def truth(self) -> str:
        """What is printed, one printed line a line."""
        return "\n".join(self.lines) + "\n"

    def centre(self, text: str, y: float, font: str, size: float) -> None:
        """Print a line in the middle."""
        self.marks.append(Mark(text, (PAGE_WIDTH - width(text, font, size)) / 2, y, font, size))
        self.lines.append(text)

    def print_head(self, left: str, middle: str, right: str, font: str = ROMAN) -> None:
        """Print a running head; empty pieces are left out."""
        for text, share in ((left, 0.0), (middle, 0.5), (right, 1.0)):
            x = LEFT + share * (RIGHT - LEFT - width(text, font, HEAD_SIZE))
            self.marks.extend([Mark(text, x, HEAD_Y, font, HEAD_SIZE)] if text else [])
        self.lines.append(" ".join(filter(None, (left, middle, right))))


@dataclass(frozen=True)
class Token:
    """A word in its font."""

    text: str
    font: str = ROMAN


@dataclass(frozen=True)
class Row:
    """Words that share a printed line; a justified one fills the measure."""

    tokens: tuple[Token, ...]
    indent: float
    justified: bool

    @property
    def text(self) -> str:
        """The words with single spaces."""
        return " ".join(token.text for token in self.tokens)


def print_book(pages: int, seed: int) -> Iterator[PrintedPage]:
    """Yield the pages of a book, one at a time: about half novel, then dictionary, then Chinese."""
    cast = sample_words.draw_cast(seed)
    chinese_pages = pages // 4
    dictionary_pages = (pages - chinese_pages) // 3
    has_title = pages > PAGES_PER_CHAPTER
    numbers = range(1 + has_title, pages + 1)
    dictionary_at = len(numbers) - dictionary_pages - chinese_pages
    chinese_at = len(numbers) - chinese_pages
    if has_title:
        yield _print_title_page(cast)
    yield from _print_novel(cast, seed, numbers[:dictionary_at])
    for volume, start in enumerate(range(dictionary_at, chinese_at, PAGES_PER_VOLUME)):
        volume_numbers = numbers[start : min(start + PAGES_PER_VOLUME, chinese_at)]
        yield from _print_dictionary(cast, f"{seed} {volume}", volume_numbers)
    yield from _print_chinese(cast, seed, numbers[chinese_at:])


def _print_title_page(cast: Cast) -> PrintedPage:
    page = PrintedPage(1)
    given, surname = cast.people[0]
    for text, y, font, size in (
        (NOVEL_TITLE.upper(), 190.0, ROMAN, 20.0),
        (f"A Chronicle of {cast.places[0]}", 226.0, ITALIC, 14.0),
        ("with a Dictionary of the Country Speech", 246.0, ITALIC, 11.0),
        ("by", 320.0, ROMAN, 10.0),
        (f"{given} {surname}".upper(), 346.0, ROMAN, 14.0),
        (f"{cast.places[1].upper()}: PRINTED FOR THE AUTHOR", 560.0, ROMAN, 9.0),
        ("MDCCCLXXIV", 576.0, ROMAN, 9.0),
    ):
        page.centre(text, y, font, size)
    page.rules.append((186, 276, 246, 276))
    return page


def _print_novel(cast: Cast, seed: int, numbers: Sequence[int]) -> Iterator[PrintedPage]:
    paragraphs, titles = sample_words.write_novel(cast, seed), sample_words.name_chapters(cast, seed)
    slots = range(int((BOTTOM - TOP) / NOVEL_LEADING) + 1)
    for chapter, start in enumerate(range(0, len(numbers), PAGES_PER_CHAPTER), start=1):
        title = next(titles)
        rows = itertools.chain.from_iterable(
            set_rows(_roman_tokens(text), RIGHT - LEFT, NOVEL_SIZE, first_indent=NOVEL_INDENT) for text in paragraphs
        )
        chapter_numbers = numbers[start : start + PAGES_PER_CHAPTER]
        for number in chapter_numbers:
            page = PrintedPage(number)
            opens, closes = number == chapter_numbers[0], number == chapter_numbers[-1]
            _print_novel_head(page, chapter, title, opens=opens)
            free_slots = slots[CHAPTER_HEADING_SLOTS:] if opens else slots
            placed = list(zip(free_slots, rows, strict=False))
            while closes and placed and placed[-1][1].justified:  # a chapter ends with a whole paragraph
                placed.pop()
            for slot, row in placed:
                place_row(page, row, LEFT, TOP + slot * NOVEL_LEADING, RIGHT - LEFT, NOVEL_SIZE)
            yield page


def _print_novel_head(page: PrintedPage, chapter: int, title: str, *, opens: bool) -> None:
    if opens:
        page.centre(f"CHAPTER {_roman_numeral(chapter)}", TOP + 3 * NOVEL_LEADING, ROMAN, 13)
        page.centre(title, TOP + 5 * NOVEL_LEADING, ITALIC, 11.5)
    elif page.page_number % 2:
        page.print_head("", title.upper(), str(page.page_number))
    else:
        page.print_head(str(page.page_number), NOVEL_TITLE.upper(), "")


def _print_dictionary(cast: Cast, seed: str, numbers: Sequence[int]) -> Iterator[PrintedPage]:
    column = (RIGHT - LEFT - GUTTER) / 2
    slots = range(int((BOTTOM - TOP) / DICTIONARY_LEADING) + 1)
    places = [(x, TOP + slot * DICTIONARY_LEADING) for x in (LEFT, RIGHT - column) for slot in slots]
    rows = (
        (entry.headword, row)
        for entry in sample_words.write_dictionary(cast, seed, ENTRIES_PER_PAGE * len(numbers))
        for row in set_rows(_entry_tokens(entry), column, DICTIONARY_SIZE, indent=DICTIONARY_INDENT)
    )
    for number in numbers:
        page = PrintedPage(number)
        placed = list(zip(places, rows, strict=False))
        headwords = [headword for _, (headword, _) in placed]
        page.print_head(headwords[0].upper(), str(number), headwords[-1].upper(), BOLD)
        page.rules.append((PAGE_WIDTH / 2, TOP - DICTIONARY_SIZE, PAGE_WIDTH / 2, BOTTOM))
        for (x, y), (_, row) in placed:
            place_row(page, row, x, y, column, DICTIONARY_SIZE)
        yield page


def _print_chinese(cast: Cast, seed: int, numbers: Sequence[int]) -> Iterator[PrintedPage]:
    slots = range(int((BOTTOM - TOP) / CHINESE_LEADING) + 1)
    rows = itertools.chain.from_iterable(map(_chinese_rows, sample_words.write_chinese(cast, seed)))
    for number in numbers:
        page = PrintedPage(number)
        page.print_head("", CHINESE_TITLE, "", CHINESE)
        for slot, row in zip(slots, rows, strict=False):
            place_row(page, row, LEFT, TOP + slot * CHINESE_LEADING, RIGHT - LEFT, CHINESE_SIZE)
        page.centre(sample_words.chinese_number(number), FOOT_Y, CHINESE, HEAD_SIZE)
        yield page


def set_rows(
    tokens: Iterable[Token], measure: float, size: float, *, first_indent: float = 0.0, indent: float = 0.0
) -> Iterator[Row]:
    """Yield the rows of one paragraph, filled greedily; a word that does not fit is divided where it may be."""
    pending = deque(tokens)
    row: list[Token] = []
    row_indent = first_indent
    room = measure - row_indent
    while pending:
        token = pending.popleft()
        needed = width(token.text, token.font, size)
        if needed <= room or not row:
            row.append(token)
            room -= needed + width(" ", ROMAN, size)
            continue
        if divided := _divide(token, room, size):
            row.append(divided[0])
            token = divided[1]
        pending.appendleft(token)
        yield Row(tuple(row), row_indent, justified=True)
        row, row_indent = [], indent
        room = measure - row_indent
    yield Row(tuple(row), row_indent, justified=False)


def place_row(page: PrintedPage, row: Row, x: float, y: float, measure: float, size: float) -> None:
    """Print a row with its left end at ``x``; spaces grow to fill the measure unless that looks absurd."""
    widths = [width(token.text, token.font, size) for token in row.tokens]
    space = width(" ", ROMAN, size)
    if row.justified and len(widths) > 1:
        filling = (measure - row.indent - sum(widths)) / (len(widths) - 1)
        space = filling if filling <= WIDEST_SPACE_RATIO * space else space
    x += row.indent
    for token, token_width in zip(row.tokens, widths, strict=True):
        page.marks.append(Mark(token.text, x, y, token.font, size))
        x += token_width + space
    page.lines.append(row.text)


@cache
def font(name: str) -> Any:
    """Return one of the fonts that come with PyMuPDF."""
    with mupdf() as pymupdf:
        return pymupdf.Font(name)


@lru_cache(WORDS_MEASURED)
def width(text: str, font_name: str, size: float) -> float:
    """Return how wide ``text`` is set [points]."""
    return float(font(font_name).text_length(text, size))


def _roman_tokens(text: str) -> list[Token]:
    return [Token(word) for word in text.split()]


def _entry_tokens(entry: Entry) -> list[Token]:
    headword = [Token(word, BOLD) for word in f"{entry.headword},".split()]
    part_of_speech = [Token(word, ITALIC) for word in entry.part_of_speech.split()]
    return headword + part_of_speech + _roman_tokens(entry.definition)


def _chinese_rows(paragraph: str) -> Iterator[Row]:
    indent, per_row = 2, int((RIGHT - LEFT) / CHINESE_SIZE)
    start = 0
    while start < len(paragraph):
        end = start + per_row - indent
        while paragraph[end : end + 1] and paragraph[end] in NOT_AT_LINE_START:
            end += 1
        while end < len(paragraph) and paragraph[end - 1] in NOT_AT_LINE_END:
            end -= 1
        yield Row((Token(paragraph[start:end], CHINESE),), indent * CHINESE_SIZE, justified=False)
        start, indent = end, 0


def _divide(token: Token, room: float, size: float) -> tuple[Token, Token] | None:
    """Return the longest beginning that fits, with its hyphen, and the rest."""
    for match in reversed(list(_MAY_BE_DIVIDED.finditer(token.text))):
        beginning = f"{token.text[: match.end()]}-"
        if width(beginning, token.font, size) <= room:
            return Token(beginning, token.font), Token(token.text[match.end() :], token.font)
    return None


def _roman_numeral(number: int) -> str:
    numeral = ""
    for value, letters in ROMAN_NUMERALS:
        numeral += letters * (number // value)
        number %= value
    return numeral
