"""How much of the print in a page's lines no character accounts for: most of it in a script that the weights lack.

Before letters that it never learnt the recogniser keeps silent, or is unsure of a look-alike, and writes the digits and
the punctuation between them. On pages of random words, drawn, 67 % of the print is unread in Cyrillic, 90 % in Arabic,
56 % in Hebrew, 28 % in Georgian, 22 % in Armenian, 23 % in Greek with accents, 6 % in Greek without, none in Latin
letters; on pages of 16th to 20th-century books under 0.5 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from models.compact.line_shape import Pixels, cut_line
from models.sr_swa.pages import EncodedLine

REACH_RATIO = 0.6
"""How far to each side of its middle a character accounts for print, of the line's height."""
SURE_POSTERIOR = 0.5
"""Characters below this are guesses, as those at letters of an unknown script are."""
SMALLEST_CONTRAST = 76
"""Between print and paper, of 255; what shines through from behind swallows less."""
SPREAD_RATIO = 0.4
"""Width over which ink is seen together, of the line's height: a letter's."""
LETTER_RATIO = 0.25
"""Height of the ink in such a width, of the line's, from which it may be a letter: rules and leaders are less."""
SHORTEST_LINE = 5.0
"""Length of print, in line heights, from which a line without a legible character counts: pictures give short ones."""
LEAST_UNREAD = 20.0
"""Length of unread print, in line heights, below which it says nothing of the page: some 40 letters."""


def unread_ratio(pixels: Pixels, lines: Sequence[EncodedLine], legible: Sequence[EncodedLine]) -> float:
    """Return the share of the print in ``lines`` of ``pixels`` [height, width, 3] that no character accounts for.

    Lines that are not among the ``legible`` count where they are long enough to be lines. 0 of a page on which too
    little is unread to say anything.
    """
    kept = {id(line) for line in legible}
    print_length = unread_length = 0.0
    for line in lines:
        print_of_line, unread = _lengths(pixels, line)
        if id(line) in kept or print_of_line >= SHORTEST_LINE:
            print_length += print_of_line
            unread_length += unread
    return unread_length / print_length if unread_length >= LEAST_UNREAD else 0.0


def _lengths(pixels: Pixels, line: EncodedLine) -> tuple[float, float]:
    """Return how long the print in ``line`` is and how much of it is unread, both in heights of the line."""
    crop = cut_line(pixels, line.quad, line.direction)
    letters, height_px = _letter_columns(crop), crop.shape[0]
    unread = letters & ~_read_columns(line, *crop.shape[:2])
    return float(letters.sum() / height_px), float(unread.sum() / height_px)


def _letter_columns(crop: Pixels) -> npt.NDArray[np.bool_]:
    """Return which columns of a line's image [height, width, 3] lie in print as high as letters are."""
    import cv2

    grey = crop.mean(axis=2)
    difference = np.abs(grey - np.median(grey))
    contrast = float(np.percentile(difference, 98))
    if contrast < SMALLEST_CONTRAST:
        return np.zeros(crop.shape[1], np.bool_)
    ink = (difference > contrast / 2).astype(np.uint8)
    spread = np.ones((1, max(1, round(SPREAD_RATIO * crop.shape[0]))), np.uint8)
    return np.asarray(cv2.dilate(ink, spread).mean(axis=0) >= LETTER_RATIO, np.bool_)


def _read_columns(line: EncodedLine, height_px: int, width_px: int) -> npt.NDArray[np.bool_]:
    """Return which of the columns of a line's image lie within reach of a character that is no guess."""
    middles = (line.ctc_frames[line.ctc_posteriors >= SURE_POSTERIOR] + 0.5) * line.frame_px
    read = np.zeros(width_px, np.bool_)
    for middle in middles:
        read[max(0, int(middle - REACH_RATIO * height_px)) : int(middle + REACH_RATIO * height_px) + 1] = True
    return read
