"""Turns pages into pixels: PDF pages through MuPDF, image files through Pillow, one page at a time.

A scanned page is rendered on its own pixel grid, never enlarged: the scan holds no more than that. Only a page that
seems blank is looked at again, larger, before that is believed.
Everything a page asks for on its way to the screen (/Rotate, CropBox, EXIF orientation) is done here;
whether the text then stands upright is for the model to find out.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from data_contracts.config import RenderConfig
from data_contracts.errors import RenderFailed, TomeflowError, page_context
from data_contracts.out_of_memory import is_out_of_memory
from tasks.sources.page_images import (
    Frame,
    check_size,
    eight_bits,
    find_pages,
    frames_of,
    open_image,
    shown_dpi,
    square_pixels,
    upright,
)
from tasks.sources.pdf.content import page_content
from tasks.sources.pdf.damage import page_damage
from tasks.sources.pdf.mupdf import POINTS_PER_INCH, load_page, mupdf
from tasks.sources.pdf.resolution import (
    CLOSER_RATIO,
    LEGIBLE_DPI,
    capped,
    closer_dpi,
    finest_dpi,
    page_dpi,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL.Image import Image

    from models.sr_swa.pages import PageImage

Rendered: TypeAlias = "tuple[npt.NDArray[np.uint8], float]"
"""RGB pixels [height, width, 3] and their resolution [dpi]."""


class Seen(NamedTuple):
    """A look at a page on which nothing was read: its resolution, and whether it is of one colour throughout."""

    dpi: float
    is_of_one_colour: bool


def seen_of(image: PageImage) -> Seen:
    """Return what ``image`` showed."""
    return Seen(image.dpi, _is_of_one_colour(image.pixels))


REOPEN_AFTER_PAGES = 32
"""MuPDF keeps what it parsed of a document until it is closed."""


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
        self._one_at_a_time = threading.Lock()

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
        rendered = self.pixels(page_number)
        assert rendered is not None, "the first look shows more than none"
        return page_image(page_number, *rendered)

    def look_closer(self, seen: PageImage) -> PageImage | None:
        """Return the page of ``seen``, on which nothing was read, finer; None where it has no more to show.

        Raises:
            RenderFailed: it has, and the largest picture that is allowed is too coarse for text.
        """
        rendered = self.pixels(seen.page_number, seen_of(seen))
        return None if rendered is None else page_image(seen.page_number, *rendered)

    def pixels(self, page_number: int, seen: Seen | None = None) -> Rendered | None:
        """Return a page as it is first looked at, or finer than ``seen``; None where that would show no more.

        For a process that has no model: what it returns needs none to be sent.

        Raises:
            RenderFailed: as ``render`` and ``look_closer``.
        """
        with page_context(page_number=page_number), self._one_at_a_time:
            try:
                return (self._pdf_page if self._kind == "pdf" else self._image_page)(page_number, seen)
            except TomeflowError:
                raise
            except Exception as error:  # damaged pages make MuPDF and Pillow raise whatever they met first
                if is_out_of_memory(error):
                    what = f"no memory for its pixels ({error or type(error).__name__})"
                    raise RenderFailed(f"{what}: lower max_page_megapixels or give --dpi.") from error
                raise RenderFailed(
                    f"could not be rendered ({error}). It is probably damaged; repair the file "
                    "(qpdf damaged.pdf repaired.pdf) or get it again, or leave the page out with --pages."
                ) from error

    def _pdf_page(self, page_number: int, seen: Seen | None) -> Rendered | None:
        with mupdf() as pymupdf:
            if self._document is None or self._rendered_pages >= REOPEN_AFTER_PAGES:
                self._close_document()
                self._document = pymupdf.open(self._path, filetype="pdf")
                self._rendered_pages = 0
            self._rendered_pages += 1
            page = load_page(self._document, page_number - 1)
            pymupdf.TOOLS.reset_mupdf_warnings()
            content, size_pt = page_content(page), (float(page.rect.width), float(page.rect.height))
            dpi = self._dpi(page_dpi(content, *size_pt), finest_dpi(content, *size_pt), size_pt, seen)
            if dpi is None:
                return None
            pixels = _pdf_pixels(pymupdf, page, dpi)
            pymupdf.TOOLS.store_shrink(100)
            lost = "" if _is_empty(self._document, page) else pymupdf.TOOLS.mupdf_warnings()
            lost = lost or page_damage(pymupdf, self._document, page_number)
        if lost and _is_of_one_colour(pixels):
            raise ValueError(f"it comes out empty, and parts of it cannot be read: {lost.splitlines()[0]}")
        return pixels, dpi

    def _dpi(self, own_dpi: float, finest_dpi: float, size_pt: tuple[float, float], seen: Seen | None) -> float | None:
        """Return the resolution for a page of ``size_pt``; None where it would show no more than ``seen`` does.

        Raises:
            RenderFailed: nothing is legible in ``seen``, and the limit of pixels allows no finer picture.
        """
        limit = self._config.max_page_megapixels
        if seen is None:
            return capped(self._config.dpi or own_dpi, *size_pt, limit)
        wanted = closer_dpi(seen.dpi, finest_dpi, *size_pt)
        if capped(wanted, *size_pt, limit) > CLOSER_RATIO * seen.dpi:
            return capped(wanted, *size_pt, limit)
        is_held_back = wanted > CLOSER_RATIO * seen.dpi and seen.dpi < LEGIBLE_DPI
        if is_held_back and not seen.is_of_one_colour:
            raise RenderFailed(
                f"at {limit:g} megapixels it has {seen.dpi:.0f} dpi, at which no text can be made out. Raise "
                "max_page_megapixels, or cut it into smaller pages."
            )
        return None

    def _close_document(self) -> None:
        if self._document is not None:
            with mupdf() as pymupdf:
                self._document.close()
                pymupdf.TOOLS.store_shrink(100)
        self._document = None

    def _image_page(self, page_number: int, seen: Seen | None) -> Rendered | None:
        import numpy as np

        self._frames = self._frames or frames_of(self._path)
        image = self._frame(self._frames[page_number - 1])
        check_size(image)
        shown, own_dpi = square_pixels(upright(image), shown_dpi(image))
        size_pt = (shown.width * POINTS_PER_INCH / own_dpi, shown.height * POINTS_PER_INCH / own_dpi)
        dpi = self._dpi(own_dpi, own_dpi, size_pt, seen)
        if dpi is None:
            return None
        if dpi != own_dpi:
            scaled = (_whole_pixels(size_pt[0], dpi), _whole_pixels(size_pt[1], dpi))
            shown = eight_bits(shown).resize(scaled, reducing_gap=3.0)
        return np.array(eight_bits(shown).convert("RGB")), dpi

    def _frame(self, frame: Frame) -> Image:
        """Return the image at ``frame``; the file stays open, since finding frame n of a TIFF means walking n."""
        if self._image is None or self._image_path != frame.path:
            if self._image is not None:
                self._image.close()
            self._image, self._image_path = open_image(frame.path), frame.path
            find_pages(self._image, frame.path)  # in a folder, a file whose frames cannot be counted is one page
        self._image.seek(frame.index)
        return self._image


def page_image(page_number: int, pixels: npt.NDArray[np.uint8], dpi: float) -> PageImage:
    """Return what was rendered as the record that models take."""
    from models.sr_swa.pages import PageImage

    return PageImage(page_number=page_number, pixels=pixels, dpi=dpi)


def _pdf_pixels(pymupdf: Any, page: Any, dpi: float) -> npt.NDArray[np.uint8]:
    """Return the PyMuPDF ``page`` as RGB [height, width, 3]."""
    import numpy as np

    zoom = [_whole_pixels(side, dpi) / side for side in (page.rect.width, page.rect.height)]
    pixmap = page.get_pixmap(matrix=pymupdf.Matrix(*zoom), colorspace=pymupdf.csRGB, alpha=False)
    rows = np.frombuffer(pixmap.samples_mv, dtype=np.uint8).reshape(pixmap.height, pixmap.stride)
    return rows[:, : pixmap.width * 3].reshape(pixmap.height, pixmap.width, 3).copy()


def _is_of_one_colour(pixels: npt.NDArray[np.uint8]) -> bool:
    return bool((pixels == pixels[0, 0]).all())


def _is_empty(document: Any, page: Any) -> bool:
    """Return whether a page has nothing to show: MuPDF complains of content without a byte, too."""
    contents = page.get_contents()
    return all(0 < xref < document.xref_length() and document.xref_stream_raw(xref) == b"" for xref in contents)


def _whole_pixels(side_pt: float, dpi: float) -> int:
    """Return the length of a side in pixels. Rounded, where MuPDF rounds up and so resamples a scan by one pixel."""
    return max(round(side_pt * dpi / POINTS_PER_INCH), 1)
