"""Lines that are no writing: bands of ornaments, black boxes, pen flourishes.

The recogniser finds a character for any ink. What is left out is unsure of itself *and* does not go with its page: it
is in a script of which the page has no sure line, repeats one figure without end, has no letter in it, or is drawn
with a pen. Knows the hypotheses of one page and their pixels, no dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Box
from models.compact.line_shape import Pixels, cut_line, thickness_px
from models.compact.words.ideographs import is_ideographic
from models.sr_swa.pages import EncodedLine

SURE_CONFIDENCE = 0.9
"""Mean posterior from which a line decides the script of its page."""
UNSURE_CONFIDENCE = 0.8
"""Mean posterior under which a line may be an ornament: bands of flowers and crosses read at 0.46 to 0.79."""
DOUBTFUL_CONFIDENCE = 0.6
"""The same where no line of the page is sure."""
FEWEST_SURE_CHARACTERS = 4
DASHES_AS_READ = "一"
"""The Chinese one, which in Latin type is a dash."""

FEWEST_REPEATED = 8
REPEATED_RATIO = 0.3
"""Different characters of a band, of all it has: one figure or two, and what they are mistaken for here and there."""

SHAPES = frozenset("■□▪▫◼◻█●◆◇▲▼_＿|丨￭")
"""What solid ink is read as. Beside text it is a bullet or a blank to be filled in."""

PEN_RATIO = 0.05
"""Width of strokes, of the line's thickness: type has 0.06 and more."""
JOINED_RATIO = 0.6
"""Share of the line's length that one piece of ink covers; letters of type stand apart."""
TALL_RATIO = 2.0
"""A flourish is this much higher than the page's type."""


@dataclass(frozen=True)
class _Page:
    """What the sure lines of a page say of it."""

    has_sure_lines: bool
    has_chinese: bool
    type_px: float

    @classmethod
    def of(cls, lines: Sequence[EncodedLine], texts: Sequence[str]) -> _Page:
        sure = [
            (line, text)
            for line, text in zip(lines, texts, strict=True)
            if _confidence(line) >= SURE_CONFIDENCE and sum(map(str.isalnum, text)) >= FEWEST_SURE_CHARACTERS
        ]
        thickness = [thickness_px(line.quad, line.direction) for line, _ in sure]
        chinese = any(_is_chinese(text) for _, text in sure)
        return cls(bool(sure), chinese, float(np.median(thickness)) if sure else 0.0)


def without_ornaments(pixels: Pixels, lines: Sequence[EncodedLine], texts: Sequence[str]) -> list[EncodedLine]:
    """Return those ``lines`` of ``pixels`` [height, width, 3] that may be writing; ``texts`` are their hypotheses."""
    page = _Page.of(lines, texts)
    lettered = [line for line, text in zip(lines, texts, strict=True) if any(map(str.isalnum, text))]
    return [
        line
        for line, text in zip(lines, texts, strict=True)
        if not (_is_strange(line, text, page) or _is_shape(line, text, lettered) or _is_flourish(pixels, line, page))
    ]


def _is_strange(line: EncodedLine, text: str, page: _Page) -> bool:
    """Tell whether an unsure line is in no script of its page, in none at all, or repeats one figure."""
    confidence = _confidence(line)
    if confidence >= UNSURE_CONFIDENCE:
        return False
    if _repeats(text) or not (_is_chinese(text) or any(_is_letter(character) for character in text)):
        return True
    return _is_chinese(text) and not page.has_chinese and (page.has_sure_lines or confidence < DOUBTFUL_CONFIDENCE)


def _is_letter(character: str) -> bool:
    """Tell whether it is a letter or a figure of any script but the Chinese."""
    return character.isalnum() and not is_ideographic(character)


def _repeats(text: str) -> bool:
    written = "".join(text.split())
    is_lettered = 2 * sum(map(str.isalnum, written)) >= len(written)  # dots lead from an entry to its page
    return is_lettered and len(written) >= FEWEST_REPEATED and len(set(written)) <= REPEATED_RATIO * len(written)


def _is_chinese(text: str) -> bool:
    """Tell whether a quarter of what is written is Chinese or Japanese: in a band the rest are stars and circles."""
    written = [character for character in text if not character.isspace() and character not in DASHES_AS_READ]
    return 4 * sum(map(is_ideographic, written)) >= len(written) > 0


def _is_shape(line: EncodedLine, text: str, lettered: Sequence[EncodedLine]) -> bool:
    """Tell whether solid ink is all there is in its row."""
    if not text.strip() or not SHAPES.issuperset("".join(text.split())):
        return False
    own = Box.around(line.quad)
    others = [Box.around(other.quad) for other in lettered]
    return not any(box.top <= own.center[1] <= box.bottom or own.top <= box.center[1] <= own.bottom for box in others)


def _is_flourish(pixels: Pixels, line: EncodedLine, page: _Page) -> bool:
    """Tell whether an unsure line is one stroke of a pen: too thin for its height, not cut into letters, and tall."""
    thick = thickness_px(line.quad, line.direction)
    if _confidence(line) >= UNSURE_CONFIDENCE or thick < TALL_RATIO * page.type_px:
        return False
    ink = _ink(cut_line(pixels, line.quad, line.direction))
    return _longest_run(ink) >= JOINED_RATIO * ink.shape[1] and _stroke_px(ink) < PEN_RATIO * thick


def _ink(crop: Pixels) -> npt.NDArray[np.uint8]:
    import cv2

    grey = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)[1], np.uint8)


def _longest_run(ink: npt.NDArray[np.uint8]) -> int:
    """Return how wide the widest piece of ink is [px]."""
    import cv2

    stats = cv2.connectedComponentsWithStats(ink)[2]
    return int(stats[1:, cv2.CC_STAT_WIDTH].max(initial=0))


def _stroke_px(ink: npt.NDArray[np.uint8]) -> float:
    """Return the mean width of the strokes: twice the ink by the length of its outline."""
    import cv2

    outlines, _ = cv2.findContours(ink, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    length = sum(cv2.arcLength(outline, closed=True) for outline in outlines)
    return float(2 * ink.sum() / length) if length else float("inf")


def _confidence(line: EncodedLine) -> float:
    return float(np.mean(line.ctc_posteriors)) if len(line.ctc_posteriors) else 0.0
