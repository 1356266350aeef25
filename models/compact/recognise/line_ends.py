"""Strokes at a line's ends that are no letters: the end of a bar, a rule of a table, a frame.

Two things must agree before a line is shortened: the ink of the stroke runs on outside the line, where no letter goes,
and the rest of the line reads the same without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Quad
from models.compact.line_shape import Pixels, cut_line, length_px, part_of, thickness_px, widen
from models.compact.recognise.recognizer import CtcHypothesis, LineRecognizer
from models.sr_swa.pages import EncodedLine

End = Literal["start", "stop"]
Ink = npt.NDArray[np.bool_]

STROKES = frozenset("1lIi|!/\\[](){}ſ丨｜")
"""What a stroke is read as."""
REACH_RATIO = 0.35
"""How far from where the character peaks its stroke may stand, of the line's thickness."""
STROKE_RATIO = 0.5
"""Least height of a stroke, of the line's thickness: a dash is lower."""
CORE_RATIO = 0.25
"""Share of the line's thickness at its top and its foot where a frame's ink says nothing of letters."""
CONFIDENCE_SLACK = 0.02
"""How much less sure the rest may be by itself."""


def without_strokes(pixels: Pixels, lines: Sequence[EncodedLine], recognizer: LineRecognizer) -> list[EncodedLine]:
    """Return ``lines`` of ``pixels`` [height, width, 3] without strokes at their ends.

    One that is nothing else is left out. A line whose reading neither begins nor ends like a stroke costs nothing.
    """
    kept = []
    for line in lines:
        shorter: EncodedLine | None = line
        for end in ("start", "stop"):
            shorter = _without_stroke(pixels, shorter, end, recognizer) if shorter else None
        kept += [shorter] if shorter else []
    return kept


def _without_stroke(pixels: Pixels, line: EncodedLine, end: End, recognizer: LineRecognizer) -> EncodedLine | None:
    """Return ``line`` without the stroke at its ``end`` if there is one; None if it is nothing else."""
    text = recognizer.text(line.ctc_ids).strip()
    at_start = end == "start"
    if not text or text[0 if at_start else -1] not in STROKES:
        return line
    place = _stroke_ends(pixels, line, end, CtcHypothesis.of(line).shares[0 if at_start else -1])
    if place is None:
        return line
    rest = text[1:] if at_start else text[:-1]
    if not rest.strip():
        return None
    quad = part_of(line.quad, line.direction, *((place, 1.0) if at_start else (0.0, place)))
    (again,) = recognizer.read(pixels, [quad], [line.direction])
    is_rest = "".join(recognizer.text(again.ctc_ids).split()) == "".join(rest.split())
    sure = CtcHypothesis.of(again).confidence >= CtcHypothesis.of(line).confidence - CONFIDENCE_SLACK
    return again if is_rest and sure else line


def _stroke_ends(pixels: Pixels, line: EncodedLine, end: End, share: float) -> float | None:
    """Return where along the line the stroke at ``share`` is over, if its ink runs on outside the line."""
    thick = max(2, round(thickness_px(line.quad, line.direction)))
    around = widen(line.quad, line.direction, thick)
    if not _is_on(around, pixels):
        return None
    ink = _ink(cut_line(pixels, around, line.direction))
    length = ink.shape[1] - 2 * thick
    if end == "stop":
        ink, share = ink[:, ::-1], 1 - share
    stroke_end = _runs_out(ink, thick, thick + share * length)
    if stroke_end is None:
        return None
    place = (stroke_end - thick) / length_px(line.quad, line.direction)
    return place if end == "start" else 1 - place


def _ink(crop: Pixels) -> Ink:
    import cv2

    grey = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_RGB2GRAY)
    level, _ = cv2.threshold(grey, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)
    dark = np.asarray(grey <= level)
    return dark if dark.mean() <= 0.5 else ~dark


def _runs_out(ink: Ink, thick: int, middle: float) -> int | None:
    """Return the column [px] after the stroke near ``middle``, the line's start being at ``thick``; None if it is none.

    ``ink`` [height, width] is the line with its thickness around it. A stroke runs out as a bar to the left, or as a
    rule above and below.
    """
    import cv2

    reach = REACH_RATIO * thick
    near = slice(max(0, int(middle - reach)), int(middle + reach) + 1)
    core = slice(thick + int(CORE_RATIO * thick), ink.shape[0] - thick - int(CORE_RATIO * thick))
    _, labels = cv2.connectedComponents(ink.astype(np.uint8))
    here = labels[core, near]
    tallest = max(np.unique(here[here > 0]), key=lambda label: _extent((here == label).any(axis=1)), default=0)
    if tallest == 0 or _extent((here == tallest).any(axis=1)) < STROKE_RATIO * (core.stop - core.start):
        return None
    stroke = labels == tallest
    inner = np.flatnonzero(stroke[core].any(axis=0))
    is_bar = stroke[:, 0].any() and _extent(stroke[:, : thick // 2].any(axis=1)) >= STROKE_RATIO * thick
    is_rule = stroke[0, near].any() and stroke[-1, near].any()
    if not (is_bar or is_rule) or inner.max() >= near.stop + reach:
        return None
    return int(inner.max()) + 1


def _extent(rows: npt.NDArray[np.bool_]) -> int:
    found = np.flatnonzero(rows)
    return int(found[-1] - found[0]) + 1 if len(found) else 0


def _is_on(quad: Quad, pixels: Pixels) -> bool:
    """Tell whether ``quad`` lies on the page: beyond its edge there is no evidence."""
    low, high = np.min(quad, axis=0), np.max(quad, axis=0)
    return bool((low >= -1).all() and high[0] <= pixels.shape[1] and high[1] <= pixels.shape[0])
