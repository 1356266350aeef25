"""The reading frame: lines level, one below the other, whichever way the text runs on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Quad

Direction = Literal["horizontal", "vertical"]
Numbers = npt.NDArray[np.float64]
_PAGE_AND_OTHER: tuple[tuple[Direction, Direction], ...] = (("horizontal", "vertical"), ("vertical", "horizontal"))

ELONGATED_RATIO = 3.0
"""A box this much longer than thick holds several characters and shows where its line runs; one character does not."""
LEAST_RUN_RATIO = 1e-6
"""Of its thickness: a line shorter than this is a point and has no slope."""
SAME_ROW_RATIO = 0.5
"""Two boxes are of one printed row if they share this much of the smaller thickness: neighbouring lines, even with
boxes grown over their ascenders and descenders, share less, and a raised or sunken fragment shares more."""
EDGE_TO_EDGE_RATIO = 0.97
"""Text leaves a margin, however close the scan was cropped."""
LARGE_TYPE_RATIO = 1.5
"""Type this much larger than the page's is a head; a gap in it no wider than it is high parts words, not columns."""
LEAN_ROWS = 5.0
LEAN_SLOPE = 0.1
LEAN_AGREEMENT = 0.005
"""Line starts that far apart (in thicknesses), within 6 degrees of upright, show a flush edge if half of them agree
to 0.3 degrees: what a camera's perspective leaves after the lines are level."""
LEAN_PAIRS = 30
"""Fewer pairs of line starts agree by chance."""
LEAN_SAMPLE = 500
"""Lines that are compared in pairs; more say nothing new and cost memory by the square."""


@dataclass(frozen=True)
class Frame:
    """The lines of a page in its reading frame, numbered from head to foot.

    Arrays are [lines], ``same_row`` [lines, lines]. ``line_thickness`` is the typical height of a line and
    ``row_gap`` the typical white between one line and the next.
    """

    start: Numbers
    end: Numbers
    top: Numbers
    bottom: Numbers
    same_row: npt.NDArray[np.bool_]
    line_thickness: float
    row_gap: float

    @classmethod
    def of(cls, corners: Numbers) -> Frame:
        """Build the frame of level ``corners`` [lines, 4, 2], sorted from head to foot."""
        first, last, thickness = _ends(corners)
        middle = (first[:, 1] + last[:, 1]) / 2
        start, end = corners[:, :, 0].min(axis=1), corners[:, :, 0].max(axis=1)
        top, bottom = middle - thickness / 2, middle + thickness / 2
        same_row = _same_row(first, last, thickness)
        end = _without_word_gaps(start, end, thickness, same_row)
        gaps = [
            float((top[below] - bottom[line]).min())
            for line in range(len(corners))
            if (below := (middle > middle[line]) & ~same_row[line] & (start < end[line]) & (end > start[line])).any()
        ]
        row_gap = max(0.0, float(np.median(gaps))) if gaps else 0.0
        return cls(start, end, top, bottom, same_row, float(np.median(thickness)), row_gap)

    @property
    def middle(self) -> Numbers:
        """Where each line's centre is, from the head of the page to its foot."""
        return (self.top + self.bottom) / 2

    def is_beside(self, line: int, other: int) -> bool:
        """Tell whether both stand in one row, and not ``other`` somewhere along a tall ``line``."""
        center = (self.top[line] + self.bottom[line]) / 2
        return bool(self.same_row[line, other] and self.top[other] <= center <= self.bottom[other])

    def bands(self, members: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
        """Return sets of ``members`` that hang together by shared rows, in the order of their first lines."""
        linked = self.same_row[np.ix_(members, members)]
        label = np.full(len(members), -1)
        for line in range(len(members)):
            if label[line] < 0:
                reached = linked[line]
                while (wider := linked[reached].any(axis=0)).sum() > reached.sum():
                    reached = wider
                label[reached] = line
        return [members[label == line] for line in np.unique(label)]


def line_directions(quads: Sequence[Quad], width_px: int, height_px: int) -> list[Direction]:
    """Return for each line whether its text runs across the page or down.

    Long boxes vote; what runs from edge to edge of the page is its border and does not. The page has one direction,
    and only a box of at least three characters at right angles to it has the other: a lone ``1``, a drop cap or a
    lone character is taller than wide, too.
    """
    if not quads:
        return []
    across, down = np.array([_sides(quad) for quad in quads]).T
    lies = (across >= ELONGATED_RATIO * down) & (across < EDGE_TO_EDGE_RATIO * width_px)
    stands = (down >= ELONGATED_RATIO * across) & (down < EDGE_TO_EDGE_RATIO * height_px)
    votes = (int(stands.sum()), float(down[stands].sum())), (int(lies.sum()), float(across[lies].sum()))
    page, other = _PAGE_AND_OTHER[votes[0] > votes[1]]
    thickness, along, athwart = (across, stands, lies) if page == "vertical" else (down, lies, stands)
    typical = np.median(thickness[along]) if along.any() else np.inf
    return [other if turned else page for turned in athwart & (np.maximum(across, down) >= ELONGATED_RATIO * typical)]


def is_mostly_vertical(quads: Sequence[Quad], directions: Sequence[Direction]) -> bool:
    """Tell whether more text, by length, runs down the page than across it."""
    balance = 0.0
    for quad, direction in zip(quads, directions, strict=True):
        across, down = _sides(quad)
        balance += -down if direction == "vertical" else across
    return balance < 0


def level(corners: Numbers, is_vertical: bool) -> Numbers:
    """Turn ``corners`` [lines, 4, 2] so that lines run along x, without skew, and follow one another along y."""
    if is_vertical:
        corners = np.roll(corners, -1, axis=1)[:, :, ::-1] * (1.0, -1.0)
    angle = _skew(corners)
    corners = corners @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return corners - np.stack([corners[:, :, 1] * _lean(corners), np.zeros(corners.shape[:2])], axis=2)


def _sides(quad: Quad) -> tuple[float, float]:
    """Return the lengths across and down the page [px]."""
    corners = np.array(quad, np.float64)
    edge = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
    return float(edge[0] + edge[2]) / 2, float(edge[1] + edge[3]) / 2


def _ends(corners: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return where each line begins and ends [lines, 2], midway between its corners, and its thickness [lines].

    The tilt of a box that is not elongated says nothing: it is taken as the upright box around it.
    """
    low, high = corners.min(axis=1), corners.max(axis=1)
    middle = (low + high) / 2
    first, last = (corners[:, 0] + corners[:, 3]) / 2, (corners[:, 1] + corners[:, 2]) / 2
    thickness = np.linalg.norm(corners[:, (3, 2)] - corners[:, (0, 1)], axis=2).mean(axis=1)
    stubby = np.linalg.norm(last - first, axis=1) < ELONGATED_RATIO * thickness
    first[stubby] = np.stack([low[:, 0], middle[:, 1]], axis=1)[stubby]
    last[stubby] = np.stack([high[:, 0], middle[:, 1]], axis=1)[stubby]
    thickness[stubby] = (high - low)[stubby, 1]
    return first, last, thickness


def _skew(corners: Numbers) -> float:
    """Return the angle of the lines [rad]: the median of the elongated ones, each as heavy as it is long."""
    first, last, thickness = _ends(corners)
    run = last - first
    length = np.linalg.norm(run, axis=1)
    elongated = length >= ELONGATED_RATIO * thickness
    return _weighted_median(np.arctan2(run[elongated, 1], run[elongated, 0]), length[elongated])


def _lean(corners: Numbers) -> float:
    """Return how far flush edges lean, x over y: the median over pairs of line starts (Theil-Sen); 0 if unclear."""
    corners = corners[np.lexsort(corners.mean(axis=1).T)][:: 1 + len(corners) // LEAN_SAMPLE]
    first, _, thickness = _ends(corners)
    apart = first[None, :] - first[:, None]
    x, y = apart[..., 0], apart[..., 1]
    telling = (y > LEAN_ROWS * np.median(thickness)) & (np.abs(x) < LEAN_SLOPE * y)
    if telling.sum() < LEAN_PAIRS:
        return 0.0
    slopes = x[telling] / y[telling]
    lean = _weighted_median(slopes, y[telling])
    return lean if np.mean(np.abs(slopes - lean) <= LEAN_AGREEMENT) >= 0.5 else 0.0


def _weighted_median(values: Numbers, weights: Numbers) -> float:
    if not len(values):
        return 0.0
    rising = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[rising])
    return float(values[rising][int(np.argmax(reached >= reached[-1] / 2))])


def _same_row(first: Numbers, last: Numbers, thickness: Numbers) -> npt.NDArray[np.bool_]:
    """Return which lines are of one printed row [lines, lines], judged where the two come closest.

    Two lines of a curved or twisted page are compared at their facing ends, not by the boxes around them.
    """
    same = np.empty((len(first), len(first)), np.bool_)
    run, rise = (last - first)[:, 0], (last - first)[:, 1]
    slope = np.divide(rise, run, out=np.zeros_like(rise), where=run > LEAST_RUN_RATIO * thickness)
    for line in range(len(first)):
        meet = (np.maximum(first[line, 0], first[:, 0]) + np.minimum(last[line, 0], last[:, 0])) / 2
        here = first[line, 1] + slope[line] * (np.clip(meet, first[line, 0], last[line, 0]) - first[line, 0])
        there = first[:, 1] + slope * (np.clip(meet, first[:, 0], last[:, 0]) - first[:, 0])
        smaller = np.minimum(thickness[line], thickness)
        shared = np.minimum((thickness[line] + thickness) / 2 - np.abs(here - there), smaller)
        same[line] = shared >= SAME_ROW_RATIO * smaller
    return same


def _without_word_gaps(start: Numbers, end: Numbers, thickness: Numbers, same_row: npt.NDArray[np.bool_]) -> Numbers:
    """Return ``end``, in a head of large type moved to where the next word of the row begins."""
    closed = end.copy()
    large = thickness >= LARGE_TYPE_RATIO * np.median(thickness)
    for line in np.flatnonzero(large):
        gaps = start - end[line]
        next_words = large & same_row[line] & (gaps > 0) & (gaps <= np.minimum(thickness, thickness[line]))
        if next_words.any():
            closed[line] = start[next_words].min()
    return closed
