"""Pictures of single lines, cut from the published PDF, so that a person can compare them with what was read."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_contracts.geometry import Box
from data_contracts.result import PageResult
from tasks.sources.pdf.mupdf import mupdf

PADDING_RATIO = 0.3
"""Of the line's height, on every side: a box that is too tight shows itself."""

CROP_DPI = 130
LARGEST_SIDE_PX = 1400
JPEG_QUALITY = 70


def crop_lines(pdf: Path, lines: Sequence[tuple[int, PageResult, Box]]) -> list[str | None]:
    """Return a data URI for each (1-based position of the page in ``pdf``, page, box); None where it has no picture."""
    with mupdf() as pymupdf, pymupdf.open(pdf, filetype="pdf") as document:
        return [_crop(pymupdf, document[position - 1], page, box) for position, page, box in lines]


def _crop(pymupdf: Any, pdf_page: Any, page: PageResult, box: Box) -> str | None:
    from PIL import Image

    if not page.width_px or not page.height_px or not box.width or not box.height:
        return None
    sideways = page.rotation in (90, 270)
    width, height = (page.height_px, page.width_px) if sideways else (page.width_px, page.height_px)
    padding = PADDING_RATIO * min(box.width, box.height)
    shown = before_rotation((box.left - padding, box.top - padding, box.right + padding, box.bottom + padding), page)
    scale_x, scale_y = pdf_page.rect.width / width, pdf_page.rect.height / height
    clip = pymupdf.Rect(shown[0] * scale_x, shown[1] * scale_y, shown[2] * scale_x, shown[3] * scale_y)
    zoom = min(CROP_DPI / 72, LARGEST_SIDE_PX / max(clip.width, clip.height))
    pixels = pdf_page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom), clip=clip, alpha=False, colorspace=pymupdf.csGRAY)
    if not pixels.width or not pixels.height:
        return None
    image = Image.frombytes("L", (pixels.width, pixels.height), pixels.samples).rotate(-page.rotation, expand=True)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=JPEG_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def before_rotation(sides: tuple[float, float, float, float], page: PageResult) -> tuple[float, float, float, float]:
    """Return (left, top, right, bottom) [px] of the upright page where they lay before it was turned clockwise."""
    left, top, right, bottom = sides
    width, height = page.width_px, page.height_px
    if page.rotation == 90:
        return top, width - right, bottom, width - left
    if page.rotation == 180:
        return width - right, height - bottom, width - left, height - top
    if page.rotation == 270:
        return height - bottom, left, height - top, right
    return sides
