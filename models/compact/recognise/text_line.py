"""From a line's hypothesis to its text, its words and their boxes.

Knows nothing of networks or pages. Where a character stands is read off the frame in which the CTC head is
surest of it; the border between two words lies midway between the characters beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from data_contracts.geometry import Box
from data_contracts.result import Line, Word
from models.compact.line_shape import strip
from models.compact.recognise.recognizer import CtcHypothesis
from models.compact.words.ideographs import is_mostly_ideographic
from models.compact.words.split import WordSpan, split_words
from models.sr_swa.pages import EncodedLine

REACH_RATIO = 0.8
"""A word reaches at most this many mean character widths beyond the middle of its first and last character."""


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


def _extents(encoded: EncodedLine, spans: Sequence[WordSpan]) -> list[tuple[float, float]]:
    """Return where each word begins and ends, as shares of the line's length."""
    middles = CtcHypothesis.of(encoded).shares
    reach = REACH_RATIO * (middles[-1] - middles[0]) / (len(middles) - 1) if len(middles) > 1 else 1.0
    borders = [(middles[left.stop - 1] + middles[right.start]) / 2 for left, right in pairwise(spans)]
    starts = np.maximum([0.0, *borders], [middles[span.start] - reach for span in spans])
    ends = np.minimum([*borders, 1.0], [middles[span.stop - 1] + reach for span in spans])
    return [(float(start), float(max(start, end))) for start, end in zip(starts, ends, strict=True)]
