"""The geometry of one text line: a quad whose text runs across the page or down.

Corners are top left, top right, bottom right, bottom left *on the page*; the direction says which pair of edges
the text runs along. Places along a line are shares of its length, 0 where the text begins and 1 where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Point, Quad

Direction = Literal["horizontal", "vertical"]
Pixels = npt.NDArray[np.uint8]
_Edges = tuple[tuple[Point, Point], tuple[Point, Point]]


def cut_line(pixels: Pixels, quad: Quad, direction: Direction) -> Pixels:
    """Return the line at ``quad`` [px] of ``pixels`` [height, width, 3] as an image [thickness, length, 3].

    Its text runs along x; a line that runs down is turned counter-clockwise.
    """
    import cv2

    (first, first_end), (second, second_end) = _edges_across(quad)
    width_px = max(1, int(max(_distance(first, first_end), _distance(second, second_end))))
    height_px = max(1, int(max(_distance(first, second), _distance(first_end, second_end))))
    flat = np.asarray([(0, 0), (width_px, 0), (width_px, height_px), (0, height_px)], np.float32)
    line = cv2.warpPerspective(
        pixels,
        cv2.getPerspectiveTransform(np.asarray(quad, np.float32), flat),
        (width_px, height_px),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(np.rot90(line) if direction == "vertical" else line, np.uint8)


def length_px(quad: Quad, direction: Direction) -> float:
    """Return how long the text's line is [px]: the longer of its two edges, at least 1 px."""
    return max(1.0, *(_distance(*edge) for edge in _edges(quad, direction)))


def thickness_px(quad: Quad, direction: Direction) -> float:
    """Return how thick the line is [px]: the longer of its two ends."""
    (first, first_end), (second, second_end) = _edges(quad, direction)
    return max(_distance(first, second), _distance(first_end, second_end))


def strip(quad: Quad, direction: Direction, start: float, end: float) -> list[Point]:
    """Return the four corners [px] of the part of the line between two shares of its length."""
    return [_between(*edge, share) for edge in _edges(quad, direction) for share in (start, end)]


def part_of(quad: Quad, direction: Direction, start: float, end: float) -> Quad:
    """Return the part of the line between two shares of its length as a quad of the same kind."""
    first, first_end, second, second_end = strip(quad, direction, start, end)
    return _quad_of(first, first_end, second, second_end, direction)


def widen(quad: Quad, direction: Direction, margin_px: float) -> Quad:
    """Return the line with ``margin_px`` more on each of its sides."""
    (start, end), (other_start, other_end) = (np.asarray(edge, np.float64) for edge in _edges(quad, direction))
    along = _unit(end - start + other_end - other_start) * margin_px
    across = _unit(other_start - start + other_end - end) * margin_px
    corners = (start - along - across, end + along - across, other_start - along + across, other_end + along + across)
    points = [(float(x), float(y)) for x, y in corners]
    return _quad_of(points[0], points[1], points[2], points[3], direction)


def point_along(quad: Quad, direction: Direction, share: float) -> Point:
    """Return the point in the middle of the line's thickness at ``share`` of its length."""
    first, second = (_between(*edge, share) for edge in _edges(quad, direction))
    return _between(first, second, 0.5)


def _edges(quad: Quad, direction: Direction) -> _Edges:
    """Return the two edges that the text runs along, each from its begin to its end."""
    top_left, top_right, bottom_right, bottom_left = quad
    down: _Edges = (top_left, bottom_left), (top_right, bottom_right)
    return down if direction == "vertical" else _edges_across(quad)


def _quad_of(first: Point, first_end: Point, second: Point, second_end: Point, direction: Direction) -> Quad:
    """Return the corners in their order of the two edges that the text runs along: see ``_edges``."""
    if direction == "vertical":
        return first, second, second_end, first_end
    return first, first_end, second_end, second


def _unit(vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return vector / max(float(np.hypot(*vector)), 1e-9)


def _edges_across(quad: Quad) -> _Edges:
    top_left, top_right, bottom_right, bottom_left = quad
    return (top_left, top_right), (bottom_left, bottom_right)


def _between(first: Sequence[float], second: Sequence[float], share: float) -> Point:
    return first[0] + share * (second[0] - first[0]), first[1] + share * (second[1] - first[1])


def _distance(first: Point, second: Point) -> float:
    return float(np.hypot(first[0] - second[0], first[1] - second[1]))
