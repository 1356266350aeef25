"""Where the lines of a plain text stand on the page: beside what another reader reads there.

Both readings are in reading order, so the lines are aligned as two sequences: the pairing that is most alike, and
never crosses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data_contracts.geometry import Box
from data_contracts.result import Line
from models.sr_swa.pages import EncodedPage
from models.vlm.detections import line_in, lines_of

LEAST_ALIKE = 0.5
"""Similarity from 0 to 1 below which two lines are not the same: a line misread by half is still found."""


def placed_lines(text: str, seen: Sequence[str], page: EncodedPage, confidence: float) -> tuple[Line, ...]:
    """Return the lines of ``text``, boxes in page pixels.

    ``seen`` are the readings of ``page.lines``. A line that nobody saw gets the room between its neighbours.
    """
    written = lines_of(text)
    matches = aligned(written, seen[: len(page.lines)])
    boxes = [None if match is None else Box.around(page.lines[match].quad) for match in matches]
    return tuple(line_in(box, line, confidence) for line, box in zip(written, _filled(boxes, page), strict=True))


def aligned(written: Sequence[str], seen: Sequence[str]) -> list[int | None]:
    """Return for each line of ``written`` the place in ``seen`` of the one that it is, or None."""
    from rapidfuzz import fuzz, process

    alike = np.zeros((len(written), len(seen)))
    if alike.size:
        alike = process.cdist(written, seen, scorer=fuzz.ratio) / 100
    alike[alike < LEAST_ALIKE] = 0
    best = np.zeros((len(written) + 1, len(seen) + 1))
    for row in range(1, len(written) + 1):
        paired = best[row - 1, :-1] + alike[row - 1]
        best[row, 1:] = np.maximum.accumulate(np.maximum(paired, best[row - 1, 1:]))
    return _traced(best, alike)


def _traced(best: np.ndarray, alike: np.ndarray) -> list[int | None]:
    """Return the pairs behind the best sum, from the last line back."""
    found: list[int | None] = [None] * alike.shape[0]
    row, column = alike.shape
    while row and column:
        if best[row, column] == best[row, column - 1]:
            column -= 1
        elif best[row, column] == best[row - 1, column]:
            row -= 1
        else:
            row, column = row - 1, column - 1
            found[row] = column
    return found


def _filled(boxes: Sequence[Box | None], page: EncodedPage) -> list[Box]:
    """Return ``boxes`` with those that are missing: as wide as the page, from the box above to the one below."""
    filled = []
    for place, box in enumerate(boxes):
        if box is None:
            above = next((other.bottom for other in reversed(boxes[:place]) if other), 0.0)
            below = next((other.top for other in boxes[place + 1 :] if other), float(page.height_px))
            box = Box(left=0, top=min(above, below), right=page.width_px, bottom=max(above, below))
        filled.append(box)
    return filled
