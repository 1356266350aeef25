"""How many errors a reading probably has: the character error rate that lines of equal confidence had elsewhere.

The curves in ``calibration.json`` were fitted on generated pages (``models/training/calibrate.py``), which is
where their provenance stands; no book that is measured took part. A second curve serves pages printed with the long s,
which the recogniser takes for an f without any doubt. Measured on books by ``tomeflow bench calibration``.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from data_contracts.result import PageResult

CURVES_FILE = Path(__file__).with_name("calibration.json")
LONG_S_RATIO = 0.4
"""Letters f among f and s above which an s was printed long: English has 0.26, German 0.2, French 0.12."""
LONG_S_LETTERS = 20
"""Fewer f and s together say nothing."""

Curve = Sequence[tuple[float, float]]
"""(confidence, character error rate), confidence rising and the rate falling."""


@cache
def load_curves(path: Path = CURVES_FILE) -> dict[str, Curve]:
    """Return the curves ``any`` and ``long_s``."""
    return {name: tuple(map(tuple, points)) for name, points in json.loads(path.read_text())["curves"].items()}


def predicted_cer(page: PageResult) -> float | None:
    """Return the expected character error rate of ``page``; None without text.

    It knows of misread characters, not of lines that were never found or of a wrong order.
    """
    curve = load_curves()["long_s" if is_set_with_long_s(page.text) else "any"]
    characters = sum(len(line.text) for line in page.lines)
    if not characters:
        return None
    return sum(len(line.text) * rate_at(curve, line.confidence) for line in page.lines) / characters


def rate_at(curve: Curve, confidence: float) -> float:
    """Return the rate between the two nearest points of ``curve``, or that of its nearer end."""
    place = bisect_right(curve, confidence, key=lambda point: point[0])
    if place in (0, len(curve)):
        return curve[0 if place == 0 else -1][1]
    (left, high), (right, low) = curve[place - 1], curve[place]
    return high + (low - high) * (confidence - left) / (right - left)


def is_set_with_long_s(text: str) -> bool:
    """Return whether f stands where s should: the print has the long s."""
    folded = text.casefold()
    f, s = folded.count("f"), folded.count("s")
    return f + s >= LONG_S_LETTERS and f >= LONG_S_RATIO * (f + s)
