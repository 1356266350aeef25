"""From a line's hypothesis to its text, its words and their boxes.

Knows nothing of networks or pages. Where a character stands is read off the frame in which the CTC head is
surest of it; the border between two words lies midway between the characters beside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np

from data_contracts.geometry import Box
from data_contracts.result import Line, Word
from models.compact.line_shape import strip
from models.compact.recognise.recognizer import Reading
from models.sr_swa.pages import EncodedLine

LONGEST_RUN = 4
"""Characters of a Chinese word, at most: names and terms have two to four."""
REACH_RATIO = 0.8
"""A word reaches at most this many mean character widths beyond the middle of its first and last character."""

_IDEOGRAPHIC_BLOCKS = (
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3040, 0x30FF),  # kana
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_IDEOGRAPH, _OPENING, _MARK, _OTHER, _SPACE = "ibmo "
_PIECE = re.compile(f"{_OPENING}*(?:(?P<run>{_IDEOGRAPH}+)|{_OTHER}+)?{_MARK}*")


@dataclass(frozen=True)
class Span:
    """A word of a hypothesis: its characters ``start`` to ``stop``."""

    start: int
    stop: int


def is_ideographic(character: str) -> bool:
    """Tell whether ``character`` is of a script written without spaces between words (Chinese, Japanese)."""
    code = ord(character)
    return code >= _IDEOGRAPHIC_BLOCKS[0][0] and any(first <= code <= last for first, last in _IDEOGRAPHIC_BLOCKS)


def is_mostly_ideographic(characters: Sequence[str]) -> bool:
    """Tell whether more than half of the letters and digits among ``characters`` are ideographs or kana."""
    letters = [character for character in characters if character.isalnum()]
    return 2 * sum(map(is_ideographic, letters)) > len(letters)


def split_words(characters: Sequence[str]) -> list[Span]:
    """Return the words of a line: what stands between spaces; in a mostly ideographic line, runs of 2 to 4.

    A run's punctuation stays with it. Spaces belong to no word.
    """
    kinds = "".join(_kind(character) for character in characters)
    parts = [Span(found.start(), found.end()) for found in re.finditer(f"[^{_SPACE}]+", kinds)]
    if not is_mostly_ideographic(characters):
        return parts
    return [span for part in parts for span in _runs(kinds, part)]


def hypothesis_line(encoded: EncodedLine, characters: Sequence[str]) -> Line | None:
    """Return the CTC hypothesis of ``encoded`` as a line, or None if it says nothing.

    ``characters`` [classes] map class ids. The line's confidence is the mean over its characters, a word's the
    least of its characters: a word is wrong when one letter is. Doubled spaces and those at the ends are no text.
    """
    written = [characters[index] for index in encoded.ctc_ids]
    spans = split_words(written)
    if not spans:
        return None
    joiner: Literal["", " "] = "" if is_mostly_ideographic(written) else " "
    words = []
    for span, following, extent in zip(spans, [*spans[1:], None], _extents(encoded, spans), strict=True):
        keeps_space = joiner == "" and following is not None and following.start > span.stop
        words.append(
            Word(
                text="".join(written[span.start : span.stop]) + " " * keeps_space,
                box=Box.around(strip(encoded.quad, encoded.direction, *extent)),
                confidence=float(encoded.ctc_posteriors[span.start : span.stop].min()),
            )
        )
    inked = np.concatenate([encoded.ctc_posteriors[span.start : span.stop] for span in spans])
    return Line(
        text=joiner.join(word.text for word in words),
        box=Box.around(encoded.quad),
        quad=encoded.quad,
        confidence=float(inked.mean()),
        words=tuple(words),
        direction=encoded.direction,
        joiner=joiner,
    )


@cache  # at most the characters that the head knows
def _kind(character: str) -> str:
    if character.isspace():
        return _SPACE
    if is_ideographic(character):
        return _IDEOGRAPH
    category = unicodedata.category(character)
    if category.startswith("P") and unicodedata.east_asian_width(character) in "WF":
        return _OPENING if category in ("Ps", "Pi") else _MARK
    return _OTHER


def _runs(kinds: str, part: Span) -> Iterator[Span]:
    """Cut a part without spaces where script changes, and ideographs into nearly equal runs."""
    for piece in _PIECE.finditer(kinds, part.start, part.stop):
        run = piece.end("run") - piece.start("run")
        cuts = -(-run // LONGEST_RUN)
        borders = [piece.start("run") + run * cut // cuts for cut in range(1, cuts)]
        edges = [piece.start(), *borders, piece.end()]
        yield from (Span(start, stop) for start, stop in pairwise(edges) if stop > start)


def _extents(encoded: EncodedLine, spans: Sequence[Span]) -> list[tuple[float, float]]:
    """Return where each word begins and ends, as shares of the line's length."""
    middles = Reading.of(encoded).shares
    reach = REACH_RATIO * (middles[-1] - middles[0]) / (len(middles) - 1) if len(middles) > 1 else 1.0
    borders = [(middles[left.stop - 1] + middles[right.start]) / 2 for left, right in pairwise(spans)]
    starts = np.maximum([0.0, *borders], [middles[span.start] - reach for span in spans])
    ends = np.minimum([*borders, 1.0], [middles[span.stop - 1] + reach for span in spans])
    return [(float(start), float(max(start, end))) for start, end in zip(starts, ends, strict=True)]
