"""Cuts a line into words: one splitter, ``spans``, and the four cuts that are made with it.

A cut says which characters are inside words; ``spans`` finds the words. ``split_words`` is what a reader sees and
what is published; ``split_at_dashes`` is what a lexicon can know; ``split_letters`` is what spelling is judged by;
``split_tokens`` is what the decoder was trained with. Knows nothing of pictures, scores or lists.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from typing import TypeVar

from models.compact.words.ideographs import is_ideographic, is_mostly_ideographic

DASHES = frozenset("-‐‑–—=⸗¬")
"""Division marks of all times included."""
LONGEST_RUN = 4
"""Characters of a Chinese word, at most: names and terms have two to four."""
TOKEN_CHARACTERS = 24
"""Characters of a word that the decoder or the memory holds, at most."""
TOKEN_RUN = 3
"""Characters of the decoder's words where no spaces are."""
UNSPACED_CHARACTERS = 16
"""From so many characters without a space, the decoder takes a hypothesis for one of a script without spaces."""

Character = TypeVar("Character")

_BOUNDARIES = DASHES | {" "}
_IDEOGRAPH, _OPENING, _MARK, _OTHER = "ibmo"
_PIECE = re.compile(f"{_OPENING}*(?:(?P<run>{_IDEOGRAPH}+)|{_OTHER}+)?{_MARK}*")


@dataclass(frozen=True)
class WordSpan:
    """A word of a line: its characters ``start`` to ``stop``, exclusive."""

    start: int
    stop: int

    def cut(self, text: str) -> str:
        """Return the word, given the ``text`` of its line."""
        return text[self.start : self.stop]


def spans(characters: Iterable[Character], is_inside: Callable[[Character], bool]) -> list[WordSpan]:
    """Return the longest runs of ``characters``, or of their class ids, that are all inside a word."""
    found, start = [], 0
    for inside, run in groupby(characters, is_inside):
        stop = start + sum(1 for _ in run)
        if inside:
            found.append(WordSpan(start, stop))
        start = stop
    return found


def split_words(characters: Sequence[str]) -> list[WordSpan]:
    """Return the words of a line: what stands between spaces; in a mostly ideographic line, runs of 2 to 4.

    A run's punctuation stays with it. Spaces belong to no word.
    """
    parts = spans(characters, lambda character: not character.isspace())
    if not is_mostly_ideographic(characters):
        return parts
    kinds = "".join(map(_kind, characters))
    return [span for part in parts for span in _runs(kinds, part)]


def split_at_dashes(characters: Iterable[str]) -> list[WordSpan]:
    """Return what stands between spaces or dashes: a divided or compound word is two."""
    return spans(characters, lambda character: character not in _BOUNDARIES)


def split_letters(characters: Iterable[str]) -> list[WordSpan]:
    """Return the runs of letters: figures, marks and spaces belong to no word."""
    return spans(characters, _is_letter)


def split_tokens(class_ids: Iterable[int], space: int) -> list[WordSpan]:
    """Return the words of the decoder: between ids of the class ``space``, of 24 characters or fewer.

    Where 16 characters stand without a space, runs of three.
    """
    tokens: list[WordSpan] = []
    for word in spans(class_ids, lambda class_id: class_id != space):
        step = TOKEN_RUN if word.stop - word.start >= UNSPACED_CHARACTERS else TOKEN_CHARACTERS
        tokens += [WordSpan(at, min(at + step, word.stop)) for at in range(word.start, word.stop, step)]
    return tokens


def _is_letter(character: str) -> bool:
    """Tell whether it is a letter, or a figure such as ½ or Ⅳ that stands for more than a digit."""
    return character.isalnum() and not character.isdecimal()


@cache  # at most the characters that the head knows
def _kind(character: str) -> str:
    if is_ideographic(character):
        return _IDEOGRAPH
    category = unicodedata.category(character)
    if category.startswith("P") and unicodedata.east_asian_width(character) in "WF":
        return _OPENING if category in ("Ps", "Pi") else _MARK
    return _OTHER


def _runs(kinds: str, part: WordSpan) -> Iterator[WordSpan]:
    """Cut a part without spaces where script changes, and ideographs into nearly equal runs."""
    for piece in _PIECE.finditer(kinds, part.start, part.stop):
        run = piece.end("run") - piece.start("run")
        cuts = -(-run // LONGEST_RUN)
        borders = [piece.start("run") + run * cut // cuts for cut in range(1, cuts)]
        edges = [piece.start(), *borders, piece.end()]
        yield from (WordSpan(start, stop) for start, stop in pairwise(edges) if stop > start)
