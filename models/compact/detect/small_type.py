"""Type too small for one view of the page: is there any, and where.

Knows no network. A letter is *small* if it is so low at the detector's scale that its line cannot be seen there. Ink
inside the lines that were found is asked no more: an ordinary page has no small letters left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Quad
from models.compact.line_shape import Pixels, thickness_px

LARGEST_SCALE = 0.25
"""Pages shrunk by less than this are ordinary ones: what lies between their lines is dirt and print from behind, and
the lines that are found at once stay as they are."""
SMALL_LETTER_PX = 4.5
"""Height in one view at which a letter is small: capitals of type of 7 px body height."""
LOWEST_LETTER_PX = 5
"""Height on the page under which a letter could not be read, and ink is specks and dots."""
INK_CONTRAST = 24
"""How much darker than the mean around it ink is, of 255."""
AROUND_LETTERS = 4
"""Side of what is around, in heights of the largest small letter."""
LETTER_RATIOS = (0.15, 3.0)
"""A letter's width, of its height: from l to a few that touch."""
FEWEST_LETTERS = 8
"""Fewer are specks."""
WORD_LETTERS = 3
"""As many small letters in a line make it one of small type, and no rule or dash."""
SMALL_LINE_PX = 10.0
"""Thickness in one view under which a line is small; boxes are a third thicker than type."""
BLOCK_PX = 30.0
"""Thickness in one view from which small letters are not the line's own: many small lines were taken for one."""
ELONGATED_RATIO = 2.0
"""A line of a word or more is this much longer than thick."""


@dataclass(frozen=True)
class SmallLetters:
    """The middles [letters, 2] of small letters outside all lines, x and y in page pixels."""

    middles: npt.NDArray[np.float64]

    def densest_window(self, side_px: float) -> tuple[int, int]:
        """Return the left and top edge of the square of ``side_px`` where most of them stand [px]."""
        cells = np.floor(self.middles / (side_px / 2)).astype(int)
        counts = np.zeros(cells.max(axis=0) + 2, int)
        np.add.at(counts, (cells[:, 0], cells[:, 1]), 1)
        squares = counts[:-1, :-1] + counts[1:, :-1] + counts[:-1, 1:] + counts[1:, 1:]
        column, row = np.unravel_index(int(squares.argmax()), squares.shape)
        return int(column * side_px / 2), int(row * side_px / 2)

    def make_word(self, line: Quad, corner: tuple[int, int]) -> bool:
        """Tell whether enough for a word stand in ``line`` of the window whose top left ``corner`` is given [px]."""
        (left, top), (right, bottom) = np.min(line, axis=0) + corner, np.max(line, axis=0) + corner
        return self._count(left, top, right, bottom) >= WORD_LETTERS

    def any_in(self, left: float, top: float, right: float, bottom: float) -> bool:
        """Tell whether any stands in this rectangle [px]."""
        return self._count(left, top, right, bottom) > 0

    def _count(self, left: float, top: float, right: float, bottom: float) -> int:
        x, y = self.middles.T
        return int(((x >= left) & (x < right) & (y >= top) & (y < bottom)).sum())


def small_letters(pixels: Pixels, quads: Sequence[Quad], scale: float) -> SmallLetters | None:
    """Return the small letters of ``pixels`` [height, width, 3] outside ``quads`` [px]; None where too few are.

    ``scale`` is that of the view that found the quads: its pixels a page pixel.
    """
    if scale > LARGEST_SCALE:
        return None
    import cv2

    highest_px = SMALL_LETTER_PX / scale
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    around_px = int(AROUND_LETTERS * highest_px) | 1
    ink = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, around_px, INK_CONTRAST)
    for quad in (quad for quad in quads if thinness_px(quad) * scale < BLOCK_PX):
        cv2.fillConvexPoly(ink, np.round(quad).astype(np.int32), 0)
    _, _, stats, middles = cv2.connectedComponentsWithStats(ink)
    width, height = stats[1:, cv2.CC_STAT_WIDTH], stats[1:, cv2.CC_STAT_HEIGHT]
    low, high = LETTER_RATIOS
    is_small = (height >= LOWEST_LETTER_PX) & (height <= highest_px)
    is_letter = is_small & (width >= low * height) & (width <= high * height)
    found: npt.NDArray[np.float64] = middles[1:][is_letter].astype(np.float64)
    return SmallLetters(found) if len(found) >= FEWEST_LETTERS else None


def small_lines(quads: Sequence[Quad], scale: float) -> list[Quad]:
    """Return those of ``quads`` that are lines too small to be seen at ``scale``."""
    return [quad for quad in quads if _is_small_line(quad, scale)]


def thinness_px(quad: Quad) -> float:
    """Return the thickness of a line, whichever way its text runs."""
    return min(thickness_px(quad, "horizontal"), thickness_px(quad, "vertical"))


def _is_small_line(quad: Quad, scale: float) -> bool:
    thin, long = sorted((thickness_px(quad, "horizontal"), thickness_px(quad, "vertical")))
    return thin * scale <= SMALL_LINE_PX and long >= ELONGATED_RATIO * thin
