"""Pages printed for tests: clean black type on white, with the fonts PyMuPDF carries. Lengths in points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MARGIN = 40.0
CHINESE_FONT, LATIN_FONT = "cjk", "tiro"

PROSE = (
    "The keeper climbed the tower at dusk and lit the lamp",
    "before the first boat came round the point of Harlan.",
    "Nobody in the village had seen the stranger arrive, and",
    "those who spoke of him afterwards could not agree about",
    "the colour of his coat or the number of his horses. The",
    "ferryman alone remembered a coin with a hole in it, and",
    "he had spent it the same evening at the Golden Anchor.",
)
COLUMNS = (
    "南浦城外有一座旧桥桥下流水",
    "先生每日清晨到此读书写字",
    "門前大樹已有三百年之久矣",
    "春風吹過江南岸百姓皆歡喜",
)


def print_page(
    lines: Iterable[str], *, size: float = 12, leading: float = 20, dpi: int = 150, font: str = LATIN_FONT
) -> npt.NDArray[np.uint8]:
    """Return a page of ``lines`` that run across it, uint8 [height, width, 3]."""
    marks = [((MARGIN, MARGIN + leading * (place + 1)), line) for place, line in enumerate(lines)]
    return _print(marks, size, dpi, font)


def print_columns(columns: Sequence[str], *, size: float = 18, dpi: int = 150) -> npt.NDArray[np.uint8]:
    """Return an upright page of ``columns`` that run down it, the first one rightmost."""
    right = MARGIN + 2 * size * len(columns)
    marks = [
        ((right - 2 * size * column, MARGIN + size * 1.3 * (row + 1)), character)
        for column, text in enumerate(columns)
        for row, character in enumerate(text)
    ]
    return _print(marks, size, dpi, CHINESE_FONT)


def print_line(text: str, *, size: float = 12, dpi: int = 150, font: str = LATIN_FONT) -> npt.NDArray[np.uint8]:
    """Return one line, cut close: what a detector would cut out."""
    import pymupdf

    length = pymupdf.Font(font).text_length(text, size)
    return _print([((size / 2, size * 1.25), text)], size, dpi, font, (length + size, size * 1.7))


def print_sheet(
    marks: Iterable[tuple[tuple[float, float], str, float]], *, size_pt: tuple[float, float], dpi: int
) -> npt.NDArray[np.uint8]:
    """Return a sheet with ``marks``: place, text and size of each."""
    import pymupdf

    font, document = pymupdf.Font(LATIN_FONT), pymupdf.open()
    page = document.new_page(width=size_pt[0], height=size_pt[1])
    writer = pymupdf.TextWriter(page.rect)
    for place, text, size in marks:
        writer.append(place, text, font=font, fontsize=size)
    return _pixels(page, writer, dpi)


def _print(
    marks: Iterable[tuple[tuple[float, float], str]],
    size: float,
    dpi: int,
    font_name: str,
    page_size: tuple[float, float] | None = None,
) -> npt.NDArray[np.uint8]:
    import pymupdf

    font = pymupdf.Font(font_name)
    marks = list(marks)
    ends = [(x + font.text_length(text, size), y) for (x, y), text in marks]
    width, height = page_size or (max(x for x, _ in ends) + MARGIN, max(y for _, y in ends) + MARGIN)
    document = pymupdf.open()
    page = document.new_page(width=width, height=height)
    writer = pymupdf.TextWriter(page.rect)
    for place, text in marks:
        writer.append(place, text, font=font, fontsize=size)
    return _pixels(page, writer, dpi)


def _pixels(page: Any, writer: Any, dpi: int) -> npt.NDArray[np.uint8]:
    import pymupdf

    writer.write_text(page)
    image = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csRGB, alpha=False)
    return np.frombuffer(image.samples, np.uint8).reshape(image.height, image.width, 3).copy()
