"""One set of lines from two views of a page: all of it at once, and larger in tiles.

Knows no pixels. Large type is seen best at once, small type in tiles. Where both have a line, the tiles' is taken if
it is the thinner one: at once, several small lines run together to a block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Box, Quad

Numbers = npt.NDArray[np.float64]

INSIDE_RATIO = 0.5
"""Share of a line's box that lies in another's when both are of one line."""
BLOCK_RATIO = 0.6
"""A line this much thinner than what it lies in is one of several."""
FILLED_RATIO = 0.3
"""... and together they fill that much of it, as lines with their spaces between do and specks do not."""


def merge_views(at_once: Sequence[Quad], in_tiles: Sequence[Quad]) -> list[Quad]:
    """Return all lines, those seen at once first; none twice."""
    if not at_once or not in_tiles:
        return [*at_once, *in_tiles]
    ones, tiles = _boxes(at_once), _boxes(in_tiles)
    shared = _shared_area(ones, tiles)
    is_thin = _thickness(tiles)[None, :] < BLOCK_RATIO * _thickness(ones)[:, None]
    inside = shared >= INSIDE_RATIO * _area(tiles)[None, :]
    is_of_several = (inside & is_thin).sum(axis=1) > (inside & ~is_thin).sum(axis=1)
    is_block = is_of_several & ((shared * (inside & is_thin)).sum(axis=1) >= FILLED_RATIO * _area(ones))
    covered = (shared >= INSIDE_RATIO * np.minimum(_area(ones)[:, None], _area(tiles)[None, :]))[~is_block].any(axis=0)
    kept = [quad for quad, block in zip(at_once, is_block, strict=True) if not block]
    return kept + [quad for quad, known in zip(in_tiles, covered, strict=True) if not known]


def _boxes(quads: Sequence[Quad]) -> Numbers:
    boxes = [Box.around(quad) for quad in quads]
    return np.asarray([(box.left, box.top, box.right, box.bottom) for box in boxes], np.float64)


def _thickness(boxes: Numbers) -> Numbers:
    return np.asarray(np.minimum(boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]), np.float64)


def _area(boxes: Numbers) -> Numbers:
    return np.asarray((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), np.float64)


def _shared_area(ones: Numbers, others: Numbers) -> Numbers:
    """Return [ones, others]."""
    low = np.maximum(ones[:, None, :2], others[None, :, :2])
    high = np.minimum(ones[:, None, 2:], others[None, :, 2:])
    return np.asarray(np.prod(np.clip(high - low, 0, None), axis=2), np.float64)
