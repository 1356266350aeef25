"""What a PDF page shows, as MuPDF draws it: its images with their resolution, and whether more is drawn than they.

Seen by a device in the renderer's place, so that forms in forms, patterns, inline images and masks count as they are
shown. Nothing is decoded. Source: MuPDF's fz_device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import hypot
from typing import Any

from tasks.sources.pdf.mupdf import POINTS_PER_INCH, mupdf

_DRAWN = ("fill_path", "stroke_path", "fill_text", "stroke_text", "clip_text", "fill_shade")
_WATCHED = (*_DRAWN, "clip_path", "fill_image", "fill_image_mask", "clip_image_mask", "begin_tile", "end_tile")


@dataclass(frozen=True)
class ShownImage:
    """An image on the page: the area that it covers [pt²], and the finer of its resolutions, its mask's included.

    ``is_mask`` marks one that only says where others show: it covers nothing of its own.
    """

    area_pt2: float
    dpi: float
    is_mask: bool = False


@dataclass
class PageContent:
    """The images of a page, ``is_drawn`` for text, lines and shades beside them, ``is_cut_out`` for outlined clips.

    Invisible text, as text layers have it, is not drawn.
    """

    images: list[ShownImage] = field(default_factory=list)
    is_drawn: bool = False
    is_cut_out: bool = False

    @property
    def covered_pt2(self) -> float:
        """The area under images, counted as often as they lie over each other [pt²]."""
        return sum(image.area_pt2 for image in self.images if not image.is_mask)


def page_content(page: Any) -> PageContent:
    """Return what the PyMuPDF ``page`` shows. The caller is alone in MuPDF."""
    with mupdf() as pymupdf:
        low_level = pymupdf.mupdf
        content = PageContent()
        device = _device_class()(content, float(page.rect.width), float(page.rect.height))
        low_level.fz_run_page(low_level.FzPage(page.this), device, low_level.FzMatrix(), low_level.FzCookie())
        low_level.fz_close_device(device)
    return content


@cache
def _device_class() -> Callable[[PageContent, float, float], Any]:
    """Return the device's class; it is made when MuPDF is there."""
    with mupdf() as pymupdf:
        low_level = pymupdf.mupdf

    class Watcher(low_level.FzDevice2):  # type: ignore[misc, name-defined]
        """Notes what it is given in ``content``. Named and called as fz_device prescribes."""

        def __init__(self, content: PageContent, width_pt: float, height_pt: float) -> None:
            super().__init__()
            self._content = content
            self._size_pt = (width_pt, height_pt)
            self._repeats = [1.0]
            for name in _WATCHED:
                getattr(self, f"use_virtual_{name}")()

        def fill_path(self, *drawn: Any) -> None:
            self._content.is_drawn = True

        stroke_path = fill_text = stroke_text = clip_text = fill_shade = fill_path

        def clip_path(self, context: Any, path: Any, even_odd: int, matrix: Any, scissor: Any) -> None:
            if not self._content.is_cut_out and not low_level.ll_fz_path_is_rect(path, matrix):
                self._content.is_cut_out = True

        def fill_image(self, context: Any, image: Any, matrix: Any, *colour: Any) -> None:
            mask_dpi = _dpi(image.mask, matrix) if image.mask else 0.0
            self._note(max(_dpi(image, matrix), mask_dpi), matrix)

        def fill_image_mask(self, context: Any, image: Any, matrix: Any, *colour: Any) -> None:
            self._note(_dpi(image, matrix), matrix)

        def clip_image_mask(self, context: Any, image: Any, matrix: Any, scissor: Any) -> None:
            self._note(_dpi(image, matrix), matrix, is_mask=True)

        def begin_tile(self, context: Any, area: Any, tile: Any, x_step: float, y_step: float, *rest: Any) -> int:
            step_area = abs(x_step * y_step)
            repeats = (area.x1 - area.x0) * (area.y1 - area.y0) / step_area if step_area else 1.0
            self._repeats.append(self._repeats[-1] * max(repeats, 1.0))
            return 0  # nothing is kept of it: draw it

        def end_tile(self, *rest: Any) -> None:
            self._repeats.pop()

        def _note(self, dpi: float, matrix: Any, *, is_mask: bool = False) -> None:
            area = min(_area(matrix, *self._size_pt) * self._repeats[-1], self._size_pt[0] * self._size_pt[1])
            self._content.images.append(ShownImage(area, dpi, is_mask))

    return Watcher


def _dpi(image: Any, matrix: Any) -> float:
    """Return the finer of an image's two resolutions where ``matrix`` puts it [dpi]."""
    sides = ((image.w, hypot(matrix.a, matrix.b)), (image.h, hypot(matrix.c, matrix.d)))
    return max([float(pixels * POINTS_PER_INCH / points) for pixels, points in sides if points > 0], default=0.0)


def _area(matrix: Any, width_pt: float, height_pt: float) -> float:
    """Return how much of the page the unit square covers under ``matrix`` [pt²]; a page begins at (0, 0)."""
    left = float(matrix.e + min(matrix.a, 0) + min(matrix.c, 0))
    right = float(matrix.e + max(matrix.a, 0) + max(matrix.c, 0))
    top = float(matrix.f + min(matrix.b, 0) + min(matrix.d, 0))
    bottom = float(matrix.f + max(matrix.b, 0) + max(matrix.d, 0))
    width = min(right, width_pt) - max(left, 0.0)
    height = min(bottom, height_pt) - max(top, 0.0)
    return max(width, 0.0) * max(height, 0.0)
