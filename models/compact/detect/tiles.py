"""Overlapping tiles of a large image: what each one is asked for, and what it must see for that.

The cores cover the image without overlap; what lies around a core is seen with it, so that a line is judged by its
surroundings wherever the border runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

OVERLAP_RATIO = 0.1
"""How much around a core is seen with it, of the side: some five lines of type."""


@dataclass(frozen=True)
class Rectangle:
    """Whole pixels, ``right`` and ``bottom`` exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def rows(self) -> slice:
        """The rows of the image."""
        return slice(self.top, self.bottom)

    @property
    def columns(self) -> slice:
        """The columns of the image."""
        return slice(self.left, self.right)

    def seen_from(self, view: Rectangle) -> tuple[slice, slice]:
        """Return its rows and columns in the image that ``view`` cuts out."""
        return (
            slice(self.top - view.top, self.bottom - view.top),
            slice(self.left - view.left, self.right - view.left),
        )


def tiles(height_px: int, width_px: int, side_px: int) -> Iterator[tuple[Rectangle, Rectangle]]:
    """Yield the core and the view, of at most ``side_px`` a side, of each tile."""
    overlap_px = int(OVERLAP_RATIO * side_px)
    step_px = side_px - 2 * overlap_px
    for top in range(0, height_px, step_px):
        for left in range(0, width_px, step_px):
            core = Rectangle(left, top, min(left + step_px, width_px), min(top + step_px, height_px))
            yield (
                core,
                Rectangle(
                    max(0, core.left - overlap_px),
                    max(0, core.top - overlap_px),
                    min(width_px, core.right + overlap_px),
                    min(height_px, core.bottom + overlap_px),
                ),
            )
