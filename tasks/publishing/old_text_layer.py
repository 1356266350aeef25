"""What a page already says, compared with its reading: which of the words that were read can be found in it?

Words are compared where they stand, line by line, since the same common words occur all over a page. Only where the
old words stand nowhere near the print (an old layer in wrong coordinates) the page's words count as a whole. Letters
and digits alone are compared, without regard to case; text without word spaces is compared character by character.
Pure comparison of records: knows no PDF library.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from data_contracts.geometry import Point
from data_contracts.result import Line, Word
from tasks.publishing.text_layer import Frame, frame_of

ABSENT_RATIO = 0.3
"""A line where the old text has a smaller share of the letters that were read has none: it is missing there."""

WHOLE_RATIO = 0.85
"""A line where the old text has this share of the letters is all there, if maybe spelt otherwise."""

LIKE_RATIO = 0.5
"""A text of whose letters this share stands in the same words is the same text, read by somebody else.

Two readers of a poor scan agree on two words in three or more; on words that are not there, hardly ever."""

UNLIKE_RATIO = 0.2
LONG_LINE_LETTERS = 8
"""A line this long that agrees in less than that is rubbish, also where the rest of the page is not."""

DISPLACED_RATIO = 2
"""Where so many times more letters are in words found anywhere on the page than in their place, and they are enough to
be the same text, it stands in wrong places."""


class TextLayer(StrEnum):
    """What became of the text of a page of ``document.pdf``."""

    NONE = "none"
    KEPT = "kept"
    COMPLETED = "completed"
    REPLACED = "replaced"
    ADDED = "added"


@dataclass(frozen=True)
class OldWord:
    """A word of the page's own, and the middle of it [px of the upright page image]."""

    text: str
    center: Point


@dataclass(frozen=True)
class Comparison:
    """The lines of a reading that cannot be found on its page, and what that says of the page's own text."""

    missing: tuple[Line, ...]
    is_all_missing: bool
    has_rubbish: bool
    """Old text stands in the place of lines, and most of it is something else than what was read."""


@dataclass(frozen=True)
class _Compared:
    """One line: letters read, letters of the old text in its place, letters of the words that both have."""

    line: Line
    letters: int
    old_letters: int
    found_letters: int
    unfound: tuple[Word, ...]

    @property
    def is_absent(self) -> bool:
        return self.old_letters < ABSENT_RATIO * self.letters

    @property
    def is_unlike(self) -> bool:
        return self.letters >= LONG_LINE_LETTERS and self.found_letters < UNLIKE_RATIO * self.letters

    @property
    def missing(self) -> Line | None:
        """The line, or what is left of it, that the old text has not."""
        if self.is_absent or self.is_unlike:
            return self.line if self.found_letters < self.letters else None
        if self.old_letters >= WHOLE_RATIO * self.letters or not self.unfound:
            return None
        text = self.line.joiner.join(word.text.strip() for word in self.unfound)
        return self.line.model_copy(update={"text": text, "words": self.unfound})


def compare(lines: Sequence[Line], old_words: Iterable[OldWord]) -> Comparison:
    """Return which of ``lines`` the ``old_words`` of their page lack."""
    words = [word for word in old_words if letters_of(word.text)]
    places = [(line, frame_of(line)) for line in lines if letters_of(line.text)]
    if not words or not places:
        return Comparison(tuple(lines), is_all_missing=True, has_rubbish=False)
    compared = [
        _compare_line(line, frame, near) for (line, frame), near in zip(places, _beside(places, words), strict=True)
    ]
    letters, in_place = sum(line.letters for line in compared), sum(line.found_letters for line in compared)
    if _found_anywhere(compared, words) >= max(LIKE_RATIO * letters, DISPLACED_RATIO * in_place):
        return Comparison((), is_all_missing=False, has_rubbish=False)
    covered = [line for line in compared if not line.is_absent]
    found, old = sum(line.found_letters for line in covered), sum(line.letters for line in covered)
    if found < LIKE_RATIO * old:
        return Comparison(tuple(lines), is_all_missing=True, has_rubbish=True)
    missing = tuple(line.missing for line in compared if line.missing)
    return Comparison(missing, is_all_missing=not covered, has_rubbish=False)


def letters_of(text: str) -> str:
    """Return the letters and digits of ``text`` as they are compared."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _units(line: Line, texts: Iterable[str]) -> Counter[str]:
    """Return what is counted of ``texts``: words, or characters where the line is written without spaces."""
    letters = [letters_of(text) for text in texts]
    return Counter("".join(letters)) if line.joiner == "" else Counter(filter(None, letters))


def _letter_count(units: Counter[str]) -> int:
    return sum(len(unit) * count for unit, count in units.items())


def _compare_line(line: Line, frame: Frame, near: Sequence[OldWord]) -> _Compared:
    read, old = _units(line, _word_texts(line)), _units(line, (word.text for word in near))
    return _Compared(
        line,
        letters=_letter_count(read),
        old_letters=_letter_count(old),
        found_letters=_letter_count(read & old),
        unfound=tuple(_unfound(line, frame, near)),
    )


def _word_texts(line: Line) -> list[str]:
    return line.text.split() if line.joiner else [line.text]


def _unfound(line: Line, frame: Frame, near: Sequence[OldWord]) -> Iterable[Word]:
    """Yield the words of ``line`` over which no old word stands, and that the old words beside it have not."""
    left = _units(line, (word.text for word in near))
    middles = [_along(frame, word.center) for word in near]
    for word in line.words:
        units = _units(line, [word.text])
        if units <= left:
            left -= units
            continue
        start, end = frame.span(word.box)
        if not any(start <= middle <= end for middle in middles):
            yield word


def _along(frame: Frame, point: Point) -> float:
    return (point[0] - frame.origin[0]) * frame.along[0] + (point[1] - frame.origin[1]) * frame.along[1]


def _above(frame: Frame, point: Point) -> float:
    return (point[0] - frame.origin[0]) * frame.up[0] + (point[1] - frame.origin[1]) * frame.up[1]


def _beside(places: Sequence[tuple[Line, Frame]], words: Iterable[OldWord]) -> list[list[OldWord]]:
    """Return for each line the old words that stand in its place: those nearest to its middle of all lines'."""
    beside: list[list[OldWord]] = [[] for _ in places]
    for word in words:
        distance, index = min(
            ((_distance(frame, word.center), index) for index, (_, frame) in enumerate(places)), default=(1.0, 0)
        )
        if distance < 1:
            beside[index].append(word)
    return beside


def _distance(frame: Frame, point: Point) -> float:
    """Return how far ``point`` is from the middle of the line across it, in heights; 1 and more is beyond it."""
    if not -frame.height <= _along(frame, point) <= frame.length + frame.height:
        return 1.0
    return abs(_above(frame, point) / frame.height - 0.5)


def _found_anywhere(compared: Sequence[_Compared], words: Sequence[OldWord]) -> int:
    """Return how many of the letters read are in words that the page has, wherever."""
    joined = "".join(letters_of(word.text) for word in words)
    known = Counter(letters_of(word.text) for word in words)
    found = 0
    for entry in compared:
        if entry.line.joiner == "":
            found += entry.letters if letters_of(entry.line.text) in joined else entry.found_letters
            continue
        units = _units(entry.line, _word_texts(entry.line))
        found += _letter_count(units & known)
        known -= units
    return found
