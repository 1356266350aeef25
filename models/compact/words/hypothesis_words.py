"""Cuts a line's hypothesis into words and says which of them are worth rescoring.

A word is what stands between spaces or dashes. Its ends are frames: from the peak of what stands before it to the
peak of what stands after, so that texts of any length compete for the same stretch of the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from models.compact.words.ideographs import is_ideographic
from models.compact.words.split import DASHES, WordSpan, split_at_dashes
from models.sr_swa.pages import EncodedLine

SURE = 0.9
"""Least posterior of a character of a word that is taken as read."""
CACHED_WORDS = 16384
"""Distinct words of which is remembered whether they are words: those of hypothesis and memory come again and again."""
LETTER_RATIO = 0.6
"""A word with fewer letters is a number, a date or noise, which no other page can vouch for."""


@dataclass(frozen=True)
class HypothesisWord(WordSpan):
    """Characters ``start`` to ``stop`` of a hypothesis, with what the CTC head thought of them.

    ``text`` is ``head + core + tail``: the core begins and ends with a letter or digit, the rest is punctuation.
    ``first_frame`` to ``last_frame`` includes the peaks of the neighbouring characters, ``before`` and ``after``
    (empty at the ends of a line). ``confidence`` is the lowest posterior of its characters.
    """

    head: str
    core: str
    tail: str
    before: str
    after: str
    first_frame: int
    last_frame: int
    confidence: float
    is_divided: bool

    @property
    def text(self) -> str:
        """The word as the hypothesis has it."""
        return self.head + self.core + self.tail

    @property
    def letters(self) -> int:
        """Letters of the core."""
        return sum(character.isalpha() for character in self.core)

    @property
    def is_word(self) -> bool:
        """Whether it is whole and mostly letters."""
        return not self.is_divided and is_mostly_letters(self.core)


@lru_cache(CACHED_WORDS)
def is_mostly_letters(text: str) -> bool:
    """Return whether ``text`` is a word rather than a number, a date, noise, or Chinese, which has no such words."""
    letters = sum(map(str.isalpha, text))
    return letters > 0 and letters >= LETTER_RATIO * len(text) and not any(map(is_ideographic, text))


def hypothesis_words(line: EncodedLine, characters: Sequence[str], *, continues: bool) -> list[HypothesisWord]:
    """Return the words of ``line``; ``characters`` maps a class id to its character.

    ``continues``: the line before ends in a divided word, so the first word here is the rest of it.
    """
    hypothesis = [characters[index] for index in line.ctc_ids]
    words = []
    for number, span in enumerate(split_at_dashes(hypothesis)):
        start, stop = span.start, span.stop
        text = "".join(hypothesis[start:stop])
        core = text.strip(_edges(text))
        offset = text.index(core) if core else len(text)
        words.append(
            HypothesisWord(
                start=start,
                stop=stop,
                head=text[:offset],
                core=core,
                tail=text[offset + len(core) :],
                before=hypothesis[start - 1] if start else "",
                after=hypothesis[stop] if stop < len(hypothesis) else "",
                first_frame=int(line.ctc_frames[start - 1]) if start else 0,
                last_frame=int(line.ctc_frames[stop]) if stop < len(hypothesis) else len(line.frames) - 1,
                confidence=float(np.min(line.ctc_posteriors[start:stop])),
                is_divided=(continues and not number) or _is_cut_off(hypothesis, stop),
            )
        )
    return words


def page_words(lines: Iterable[EncodedLine], characters: Sequence[str]) -> list[list[HypothesisWord]]:
    """Return the words of each of ``lines``, which follow one another on a page."""
    words, continues = [], False
    for line in lines:
        words.append(hypothesis_words(line, characters, continues=continues))
        continues = ends_divided(line, characters) if len(line.ctc_ids) else continues
    return words


def confident_words(words: Iterable[Sequence[HypothesisWord]]) -> list[str]:
    """Return the whole words of all lines that are taken as read."""
    return [word.core for each in words for word in each if word.is_word and word.confidence > SURE]


def ends_divided(line: EncodedLine, characters: Sequence[str]) -> bool:
    """Return whether the last word of ``line`` goes on in the next line."""
    hypothesis = [characters[index] for index in line.ctc_ids]
    return len(hypothesis) > 1 and hypothesis[-1] in DASHES and hypothesis[-2].isalpha()


def _edges(text: str) -> str:
    return "".join({character for character in text if not character.isalnum()})


def _is_cut_off(hypothesis: Sequence[str], stop: int) -> bool:
    return stop == len(hypothesis) - 1 and hypothesis[stop] in DASHES
