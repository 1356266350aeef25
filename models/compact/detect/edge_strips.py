"""Lines that the edge of the page cuts in two: what is left of their letters is no text.

A line of the page that merely reaches the edge is as high as the others, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data_contracts.geometry import Box
from models.compact.line_shape import Pixels, thickness_px
from models.sr_swa.pages import EncodedLine

EDGE_PX = 1.5
"""A box that ends so near the edge is cut by it."""
CUT_RATIO = 0.65
"""A halved line's thickness, of that of the page's lines."""
CUT_CONFIDENCE = 0.95
"""Mean posterior from which even half a line is read: capitals and figures without their feet."""
FRAGMENT_CONFIDENCE = 0.8
"""The same for a fragment of a letter or two at the left or right edge."""
FRAGMENT_RATIO = 1.5
"""Such a fragment's length, of its thickness, at most."""
INKED_RATIO = 0.15
"""Least share of the edge inside the box that is ink: letters go on beyond it."""
FEWEST_LINES = 3
"""With fewer others there is nothing to compare a line with."""


def uncut_lines(pixels: Pixels, lines: Sequence[EncodedLine]) -> list[EncodedLine]:
    """Return ``lines`` of ``pixels`` [height, width, 3] without those of which the page's edge leaves a part only."""
    if len(lines) <= FEWEST_LINES:
        return list(lines)
    typical_px = float(np.median([thickness_px(line.quad, line.direction) for line in lines]))
    return [line for line in lines if not _is_cut(pixels, line, typical_px)]


def _is_cut(pixels: Pixels, line: EncodedLine, typical_px: float) -> bool:
    height_px, width_px = pixels.shape[:2]
    box, confidence = Box.around(line.quad), float(np.mean(line.ctc_posteriors))
    thin, long = min(box.width, box.height), max(box.width, box.height)
    along = box.width >= box.height
    halved = thin <= CUT_RATIO * typical_px and confidence < CUT_CONFIDENCE
    fragment = long <= FRAGMENT_RATIO * typical_px and confidence < FRAGMENT_CONFIDENCE
    edges = {
        "top": (box.top <= EDGE_PX, halved and along),
        "bottom": (box.bottom >= height_px - 1 - EDGE_PX, halved and along),
        "left": (box.left <= EDGE_PX, fragment or (halved and not along)),
        "right": (box.right >= width_px - 1 - EDGE_PX, fragment or (halved and not along)),
    }
    return any(is_there and is_part and _is_inked(pixels, box, name) for name, (is_there, is_part) in edges.items())


def _is_inked(pixels: Pixels, box: Box, edge: str) -> bool:
    """Tell whether the ink of ``box`` reaches the ``edge`` of the page."""
    import cv2

    rows = slice(int(box.top), int(box.bottom) + 1)
    columns = slice(int(box.left), int(box.right) + 1)
    grey = cv2.cvtColor(np.ascontiguousarray(pixels[rows, columns]), cv2.COLOR_RGB2GRAY)
    ink = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)[1]
    border = {"top": ink[0], "bottom": ink[-1], "left": ink[:, 0], "right": ink[:, -1]}[edge]
    return bool(border.mean() >= INKED_RATIO)
