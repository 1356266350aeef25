"""Small scanned pages of three short lines: real text for the real model, at a fraction of a second a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pymupdf

PAGE_PT = (300, 150)
SCAN_DPI = 150
_WORDS = """
    garden winter letter answer market silver bridge castle summer window forest harbor
    pencil dinner island doctor mirror valley velvet copper orange butter hammer basket
""".split()  # noqa: SIM905 - a list of words reads better as words


def three_lines(page_number: int) -> list[str]:
    """Return the lines of a page; no two pages below 24 * 24 have the same first line."""
    first, second = _WORDS[page_number % 24], _WORDS[page_number // 24 % 24]
    third = _WORDS[page_number * 7 % 24]
    return [f"The {first} and the {second}", f"stand by the old {third}", f"as page {page_number} tells"]


def short_page(lines: Sequence[str]) -> bytes:
    """Return a scan of ``lines`` as the bytes of a PNG file."""
    with pymupdf.open() as drawn:
        page = drawn.new_page(width=PAGE_PT[0], height=PAGE_PT[1])
        for number, line in enumerate(lines):
            page.insert_text((30, 40 + 35 * number), line, fontsize=16, fontname="tiro")
        pixmap = page.get_pixmap(dpi=SCAN_DPI, colorspace=pymupdf.csGRAY)
        return bytes(pixmap.tobytes("png"))


def short_pdf(path: Path, page_numbers: Sequence[int]) -> Path:
    """Write a PDF that holds a scan of ``three_lines`` for each of ``page_numbers``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pymupdf.open() as document:
        for page_number in page_numbers:
            page = document.new_page(width=PAGE_PT[0], height=PAGE_PT[1])
            page.insert_image(page.rect, stream=short_page(three_lines(page_number)))
        document.save(path, deflate=True)
    return path
