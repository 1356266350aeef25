"""Printed page numbers as they stand in the head or foot of a page: arabic, Roman or Chinese, bare or bracketed.

One page gives candidates, not a number: a signature mark, a year or a misread line may resemble one. Which of
them is the page's number only the neighbours decide; ``number_sequence`` asks them. Knows nothing of pixels.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from data_contracts.result import Line, PageResult

Style = Literal["arabic", "roman", "ideographic"]

EDGE_LINES = 3
"""Lines from the top and from the bottom in which a number is sought: a running head may be set in two lines."""

RUNNING_HEAD_CHARACTERS = 70
"""A longer line is text; its first or last word is no page number."""

TABLE_COLUMNS = 3
"""Bare numbers in one row that number the columns of a table; two may be those of facing pages."""

HIGHEST_NUMBER = 9999
WITHIN_HEAD_WEIGHT = 0.8
"""Of a number that stands alone in its line: heads end in the number of a chapter as well."""

_WRAPPING = " \t.,;:·•*_-–—~=()[]{}<>|/\\'\"«»“”‘’"
_ROMAN = re.compile(r"(?=.)M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})$")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_SIGNATURE_MARKS = frozenset("CDLM")
"""Alone in the foot these are the printer's sheet letters, not 100, 500, 50 and 1000."""

_LOOK_ALIKES = str.maketrans({"o": "0", "O": "0", "l": "1", "I": "1", "ı": "1", "|": "1"})
_DIGITS = re.compile(r"[0-9]{1,4}$")
_PAGE_WORD = re.compile(r"\A(?:p|pp|pag|page|pagina|seite|s)\.? (?=[0-9IlOo|])", re.IGNORECASE)
"""As typescripts write before the number."""
_IDEOGRAPHIC_DIGITS = {character: value for value, character in enumerate("〇一二三四五六七八九")} | {"零": 0}
_IDEOGRAPHIC_UNITS = {"十": 10, "百": 100, "千": 1000}
_TENS_IN_ONE = str.maketrans({"廿": "二十", "卅": "三十"})


class PrintedNumber(BaseModel):
    """A printed number that may be its page's. ``weight`` says how much it resembles one (0 to 1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: int = Field(ge=1, le=HIGHEST_NUMBER)
    style: Style
    text: str
    place: Literal["head", "foot"]
    weight: float = Field(1.0, gt=0, le=1)


def read_printed_numbers(page: PageResult) -> tuple[PrintedNumber, ...]:
    """Return the candidates of a page, of each style and value the likeliest once, likeliest first."""
    found: dict[tuple[Style, int], PrintedNumber] = {}
    for candidate in _candidates(page.lines):
        key = (candidate.style, candidate.value)
        if key not in found or found[key].weight < candidate.weight:
            found[key] = candidate
    return tuple(sorted(found.values(), key=lambda number: -number.weight))


def _candidates(lines: Sequence[Line]) -> Iterator[PrintedNumber]:
    by_height = sorted(lines, key=lambda line: line.box.top)
    head, foot = by_height[:EDGE_LINES], by_height[EDGE_LINES:][-EDGE_LINES:]
    places: tuple[tuple[Literal["head", "foot"], Sequence[Line]], ...] = (("head", head), ("foot", foot))
    for place, edge in places:
        for line in edge:
            if not _numbers_columns(line, lines):
                yield from _in_line(line.text, place)


def _numbers_columns(line: Line, lines: Sequence[Line]) -> bool:
    """Return whether ``line`` is one of several bare numbers side by side: a table's columns are numbered like that."""
    if parse_number(line.text) is None:
        return False
    level = [other for other in lines if abs(other.box.center[1] - line.box.center[1]) < line.box.height / 2]
    return sum(parse_number(other.text) is not None for other in level) >= TABLE_COLUMNS


def _in_line(text: str, place: Literal["head", "foot"]) -> Iterator[PrintedNumber]:
    text = unicodedata.normalize("NFKC", text).strip()
    if alone := parse_number(text):
        yield PrintedNumber(value=alone[1], style=alone[0], text=text, place=place)
        return
    tokens = text.split()
    if place == "foot" or len(tokens) < 2 or len(text) > RUNNING_HEAD_CHARACTERS:
        return  # notes begin and end with numbers
    for token in (tokens[0], tokens[-1]):
        if inside := parse_number(token):
            yield PrintedNumber(value=inside[1], style=inside[0], text=token, place=place, weight=WITHIN_HEAD_WEIGHT)


def parse_number(text: str) -> tuple[Style, int] | None:
    """Return style and value of ``text`` if it is one number, whatever stands around it: ``- 12 -``, ``(vi)``."""
    bare = _PAGE_WORD.sub("", text.strip(_WRAPPING), count=1)
    if any(character.isdigit() and character.isascii() for character in bare):
        digits = bare.translate(_LOOK_ALIKES)
        return _in_range("arabic", int(digits)) if _DIGITS.match(digits) else None
    upper = bare.upper()
    if _ROMAN.match(upper) and upper not in _SIGNATURE_MARKS and bare in (upper, bare.lower()):
        return _in_range("roman", _roman_value(upper))
    return _in_range("ideographic", _ideographic_value(bare))


def _in_range(style: Style, value: int | None) -> tuple[Style, int] | None:
    return (style, value) if value is not None and 1 <= value <= HIGHEST_NUMBER else None


def _roman_value(text: str) -> int:
    values = [_ROMAN_VALUES[character] for character in text]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0], strict=True))


def _ideographic_value(text: str) -> int | None:
    """Return the value of 十二, 一百二十三 or 一二三; None if ``text`` is no number."""
    text = text.translate(_TENS_IN_ONE)
    if not text or any(c not in _IDEOGRAPHIC_DIGITS and c not in _IDEOGRAPHIC_UNITS for c in text):
        return None
    if all(c in _IDEOGRAPHIC_DIGITS for c in text):
        return int("".join(str(_IDEOGRAPHIC_DIGITS[c]) for c in text))
    total, digit = 0, None
    for character in text:
        if character in _IDEOGRAPHIC_UNITS:
            total += _IDEOGRAPHIC_UNITS[character] * (1 if digit is None else digit)
            digit = None
        else:
            digit = _IDEOGRAPHIC_DIGITS[character]
    return total + (digit or 0)
