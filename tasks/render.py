"""Turns pages into pixels: PDF pages through MuPDF, image files through Pillow, one page at a time.

A scanned page is rendered on its own pixel grid, never enlarged: the scan holds no more than that.
Everything a page asks for on its way to the screen (/Rotate, CropBox, EXIF orientation) is done here;
whether the text then stands upright is for the model to find out.
"""

from __future__ import annotations

from math import hypot, sqrt
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from data_contracts.config import RenderConfig
from data_contracts.errors import RenderFailed, TomeflowError, page_context
from data_contracts.mupdf import POINTS_PER_INCH, load_page, mupdf
from data_contracts.page_images import (
    Frame,
    check_size,
    count_frames,
    eight_bits,
    frames_of,
    open_image,
    shown_dpi,
    square_pixels,
    upright,
)
from data_contracts.pdf_damage import page_damage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL.Image import Image

    from models.sr_swa.protocol import PageImage

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

REOPEN_AFTER_PAGES = 32
"""MuPDF keeps what it parsed of a document until it is closed."""

_MARKS_OF_A_DRAWN_PAGE = frozenset({"fill-text", "stroke-text", "fill-path", "stroke-path", "fill-shade"})


class PageSource:
    """The pages of one document on a local path; a context manager. Invariant: memory does not grow with pages."""

    def __init__(self, path: Path, kind: Literal["pdf", "image", "folder"], config: RenderConfig) -> None:
        """Open lazily: nothing is read before the first page is asked for."""
        self._path = path
        self._kind = kind
        self._config = config
        self._document: Any = None
        self._rendered_pages = 0
        self._frames: list[Frame] = []
        self._image: Image | None = None
        self._image_path: Path | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close what is open."""
        self.close()

    def close(self) -> None:
        """Close the document or image; a later ``render`` opens it again."""
        self._close_document()
        if self._image is not None:
            self._image.close()
        self._image = self._image_path = None

    def render(self, page_number: int) -> PageImage:
        """Return page ``page_number`` (1-based) as RGB pixels and the resolution they have.

        Raises:
            RenderFailed: the page is damaged or too large; the other pages are not affected.
        """
        from models.sr_swa.protocol import PageImage

        with page_context(page_number=page_number):
            try:
                pixels, dpi = (self._pdf_page if self._kind == "pdf" else self._image_page)(page_number)
            except TomeflowError:
                raise
            except MemoryError as error:
                raise RenderFailed("no memory for its pixels: lower max_page_megapixels or give --dpi.") from error
            except Exception as error:  # damaged pages make MuPDF and Pillow raise whatever they met first
                raise RenderFailed(
                    f"could not be rendered ({error}). It is probably damaged; repair the file "
                    "(qpdf damaged.pdf repaired.pdf) or get it again, or leave the page out with --pages."
                ) from error
        return PageImage(page_number=page_number, pixels=pixels, dpi=dpi)

    def _pdf_page(self, page_number: int) -> tuple[npt.NDArray[np.uint8], float]:
        import numpy as np

        with mupdf() as pymupdf:
            if self._document is None or self._rendered_pages >= REOPEN_AFTER_PAGES:
                self._close_document()
                self._document = pymupdf.open(self._path, filetype="pdf")
                self._rendered_pages = 0
            self._rendered_pages += 1
            page = load_page(self._document, page_number - 1)
            pymupdf.TOOLS.reset_mupdf_warnings()
            dpi = _capped(
                self._config.dpi or page_dpi(page), page.rect.width, page.rect.height, self._config.max_page_megapixels
            )
            zoom = [_whole_pixels(side, dpi) / side for side in (page.rect.width, page.rect.height)]
            pixmap = page.get_pixmap(matrix=pymupdf.Matrix(*zoom), colorspace=pymupdf.csRGB, alpha=False)
            rows = np.frombuffer(pixmap.samples_mv, dtype=np.uint8).reshape(pixmap.height, pixmap.stride)
            pixels = rows[:, : pixmap.width * 3].reshape(pixmap.height, pixmap.width, 3).copy()
            pymupdf.TOOLS.store_shrink(100)
            lost = "" if _is_empty(self._document, page) else pymupdf.TOOLS.mupdf_warnings()
            lost = lost or page_damage(pymupdf, self._document, page_number)
        if lost and (pixels == pixels[0, 0]).all():
            raise ValueError(f"it comes out empty, and parts of it cannot be read: {lost.splitlines()[0]}")
        return pixels, dpi

    def _close_document(self) -> None:
        if self._document is not None:
            with mupdf() as pymupdf:
                self._document.close()
                pymupdf.TOOLS.store_shrink(100)
        self._document = None

    def _image_page(self, page_number: int) -> tuple[npt.NDArray[np.uint8], float]:
        import numpy as np

        self._frames = self._frames or frames_of(self._path)
        image = self._frame(self._frames[page_number - 1])
        check_size(image)
        dpi_both_ways = shown_dpi(image)
        shown, own_dpi = square_pixels(upright(image), dpi_both_ways)
        width, height = shown.size
        to_points = POINTS_PER_INCH / own_dpi
        wanted_dpi = self._config.dpi or own_dpi
        dpi = _capped(wanted_dpi, width * to_points, height * to_points, self._config.max_page_megapixels)
        if dpi != own_dpi:
            scaled = (_whole_pixels(width * to_points, dpi), _whole_pixels(height * to_points, dpi))
            shown = eight_bits(shown).resize(scaled, reducing_gap=3.0)
        return np.array(eight_bits(shown).convert("RGB")), dpi

    def _frame(self, frame: Frame) -> Image:
        """Return the image at ``frame``; the file stays open, since finding frame n of a TIFF means walking n."""
        if self._image is None or self._image_path != frame.path:
            if self._image is not None:
                self._image.close()
            self._image, self._image_path = open_image(frame.path), frame.path
            count_frames(self._image, frame.path)  # in a folder, a file whose frames cannot be counted is one page
        self._image.seek(frame.index)
        return self._image


def _is_empty(document: Any, page: Any) -> bool:
    """Return whether a page has nothing to show: MuPDF complains of content without a byte, too."""
    contents = page.get_contents()
    return all(0 < xref < document.xref_length() and document.xref_stream_raw(xref) == b"" for xref in contents)


def page_dpi(page: Any) -> float:
    """Return the resolution at which the PyMuPDF ``page`` shows all it has, and no more [dpi].

    The finest of its large images decides (a scan may be cut into strips, or lie in layers); drawn text or
    lines beside them ask for at least ``DRAWN_PAGE_DPI``.
    """
    width, height = float(page.rect.width), float(page.rect.height)
    images = [(image, _shown_area(image, page)) for image in page.get_image_info()]
    if sum(area for _, area in images) < SCAN_AREA_RATIO * width * height:
        return DRAWN_PAGE_DPI
    largest = max(area for _, area in images)
    own = max(_image_dpi(image) for image, area in images if area >= LARGE_IMAGE_RATIO * largest)
    limit = max(SCAN_DPI_LIMIT, SMALL_PAGE_PX * POINTS_PER_INCH / max(width, height))
    is_drawn_too = any(mark in _MARKS_OF_A_DRAWN_PAGE for mark, *_ in page.get_bboxlog())
    return min(max(own, DRAWN_PAGE_DPI) if is_drawn_too else own, limit)


def _shown_area(image: dict[str, Any], page: Any) -> float:
    """Return how much of the page an image covers [pt²]; a page's rectangle begins at (0, 0)."""
    left, top, right, bottom = (float(side) for side in image["bbox"])
    width = min(right, float(page.rect.width)) - max(left, 0.0)
    height = min(bottom, float(page.rect.height)) - max(top, 0.0)
    return max(width, 0.0) * max(height, 0.0)


def _image_dpi(image: dict[str, Any]) -> float:
    """Return the finer of an image's two resolutions on the page [dpi]."""
    a, b, c, d, _, _ = image["transform"]
    sides = ((image["width"], hypot(a, b)), (image["height"], hypot(c, d)))
    return max(float(pixels * POINTS_PER_INCH / points) for pixels, points in sides if points > 0)


def _capped(dpi: float, width_pt: float, height_pt: float, megapixels: float) -> float:
    """Return ``dpi``, or less where the page would have more than ``megapixels``."""
    pixels = width_pt * height_pt * (dpi / POINTS_PER_INCH) ** 2
    return dpi if pixels <= megapixels * 1e6 else dpi * sqrt(megapixels * 1e6 / pixels)


def _whole_pixels(side_pt: float, dpi: float) -> int:
    """Return the length of a side in pixels. Rounded, where MuPDF rounds up and so resamples a scan by one pixel."""
    return max(round(side_pt * dpi / POINTS_PER_INCH), 1)
