"""Rectangles on a page: pixels, origin at the top left, x to the right, y down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

Point = tuple[float, float]
Quad = tuple[Point, Point, Point, Point]


class Box(BaseModel):
    """An axis-aligned rectangle [px]. Invariant: right >= left and bottom >= top."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    left: float
    top: float
    right: float
    bottom: float

    @model_validator(mode="after")
    def _refuse_inside_out(self) -> Self:
        if self.right < self.left or self.bottom < self.top:
            raise ValueError(
                f"box is inside out: left {self.left} right {self.right} top {self.top} bottom {self.bottom}"
            )
        return self

    @classmethod
    def around(cls, points: Iterable[Point]) -> Self:
        """Return the smallest box that holds all ``points``."""
        xs, ys = zip(*points, strict=True)
        return cls(left=min(xs), top=min(ys), right=max(xs), bottom=max(ys))

    @property
    def width(self) -> float:
        """Width [px]."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Height [px]."""
        return self.bottom - self.top

    @property
    def center(self) -> Point:
        """Middle of the box [px]."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2
