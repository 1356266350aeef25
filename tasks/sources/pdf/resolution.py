"""At which resolution a page is turned into pixels: what it shows decides, and whether anything was read there.

Pure rules, in points and dpi; knows neither files nor pixels.
"""

from __future__ import annotations

from math import sqrt

from tasks.sources.pdf.content import PageContent
from tasks.sources.pdf.mupdf import POINTS_PER_INCH

DRAWN_PAGE_DPI = 300.0
"""For pages that are drawn, not scanned: what OCR is used to."""

SCAN_DPI_LIMIT = 400.0
"""Finer scans are rendered at this: text gains nothing, memory and time double."""

SMALL_PAGE_PX = 3000.0
"""... unless that leaves the longer side shorter than this: then the claimed page size is the odd one."""

SCAN_AREA_RATIO = 0.5
"""Images that cover at least this share of the page make it a scan."""

LARGE_IMAGE_RATIO = 0.5
"""An image of at least this share of the largest one's area is part of the scan, not an ornament."""

DETAIL_AREA_RATIO = 0.01
"""Finer images that cover this share of a scan are more than an ornament: a line of text covers as much."""

LEGIBLE_DPI = 70.0
"""Below this the small letters of a book are 5 pixels high: that nothing was read says nothing."""

CLOSER_RATIO = 1.2
"""Rendered again at less than so many times the resolution, a page would show the same."""


def page_dpi(content: PageContent, width_pt: float, height_pt: float) -> float:
    """Return the resolution at which a page shows all it has, and no more [dpi].

    The finest of its large images decides, masks included (a scan may be cut into strips, or lie in layers). Drawn
    text or lines beside them ask for at least ``DRAWN_PAGE_DPI``, smaller and finer images for at most that.
    """
    if content.covered_pt2 < SCAN_AREA_RATIO * width_pt * height_pt:
        return DRAWN_PAGE_DPI
    largest = max(image.area_pt2 for image in content.images)
    own = max(image.dpi for image in content.images if image.area_pt2 >= LARGE_IMAGE_RATIO * largest)
    details = DRAWN_PAGE_DPI if content.is_drawn else _detail_dpi(content, width_pt * height_pt)
    return min(max(own, details), max(SCAN_DPI_LIMIT, _small_page_dpi(width_pt, height_pt)))


def _detail_dpi(content: PageContent, page_pt2: float) -> float:
    """Return how fine the finest images are that together are more than an ornament; at most ``DRAWN_PAGE_DPI``."""
    covered = 0.0
    for image in sorted(content.images, key=lambda image: -image.dpi):
        covered += image.area_pt2
        if covered >= DETAIL_AREA_RATIO * page_pt2:
            return min(image.dpi, DRAWN_PAGE_DPI)
    return 0.0


def closer_dpi(seen_dpi: float, finest_dpi: float, width_pt: float, height_pt: float) -> float:
    """Return the resolution at which to render a page again on which nothing was read at ``seen_dpi`` [dpi].

    It is that of the finest thing there, however small, as far as text can need it. What was seen too coarse to be
    legible is enlarged in any case.
    """
    small_page = _small_page_dpi(width_pt, height_pt)
    closer = min(finest_dpi, max(DRAWN_PAGE_DPI, small_page))
    return max(closer, min(DRAWN_PAGE_DPI, small_page)) if seen_dpi < LEGIBLE_DPI else closer


def finest_dpi(content: PageContent, width_pt: float, height_pt: float) -> float:
    """Return the resolution of the finest thing on a page; what is drawn, or cut out, may be small as the page is."""
    images = max((image.dpi for image in content.images), default=0.0)
    if not content.is_drawn and not content.is_cut_out:
        return images
    return max(images, DRAWN_PAGE_DPI, _small_page_dpi(width_pt, height_pt))


def _small_page_dpi(width_pt: float, height_pt: float) -> float:
    return SMALL_PAGE_PX * POINTS_PER_INCH / max(width_pt, height_pt)


def capped(dpi: float, width_pt: float, height_pt: float, megapixels: float) -> float:
    """Return ``dpi``, or less where the page would have more than ``megapixels``."""
    pixels = width_pt * height_pt * (dpi / POINTS_PER_INCH) ** 2
    return dpi if pixels <= megapixels * 1e6 else dpi * sqrt(megapixels * 1e6 / pixels)


def whole_pixels(side_pt: float, dpi: float) -> int:
    """Return the length of a side in pixels. Rounded, where MuPDF rounds up and so resamples a scan by one pixel."""
    return max(round(side_pt * dpi / POINTS_PER_INCH), 1)
