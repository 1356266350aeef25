"""A PDF as a source, through MuPDF."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.sources.page_images import Frame, file_kind, is_of_one_colour
from tasks.sources.pdf.content import page_content
from tasks.sources.pdf.damage import page_damage
from tasks.sources.pdf.mupdf import load_page, mupdf
from tasks.sources.pdf.readable import readable_pdf
from tasks.sources.pdf.resolution import finest_dpi, page_dpi, whole_pixels
from tasks.sources.protocol import Asked, ChooseDpi, Examined, Rendered, SourceKind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

REOPEN_AFTER_PAGES = 32
"""MuPDF keeps what it parsed of a document until it is closed."""


class PdfSource(SourceKind):
    """The pages of a PDF."""

    name = "pdf"

    def __init__(self, path: Path) -> None:
        """Open nothing yet."""
        super().__init__(path)
        self._document: Any = None
        self._rendered_pages = 0

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether it is a file that begins, or ends, as PDFs do."""
        return not path.is_dir() and file_kind(path) == "pdf"

    def examine(self, asked: Asked) -> Examined:
        """Count the pages and look for damage; a copy is mended where that shows more."""
        return Examined(*readable_pdf(self.path, asked.sha256, asked.spool_folder, asked.seconds))

    def pixels(self, page_number: int, choose_dpi: ChooseDpi) -> Rendered | None:
        """Return a page with all that it asks for on its way to the screen."""
        with mupdf() as pymupdf:
            if self._document is None or self._rendered_pages >= REOPEN_AFTER_PAGES:
                self.close()
                self._document = pymupdf.open(self.path, filetype="pdf")
                self._rendered_pages = 0
            self._rendered_pages += 1
            page = load_page(self._document, page_number - 1)
            pymupdf.TOOLS.reset_mupdf_warnings()
            content, size_pt = page_content(page), (float(page.rect.width), float(page.rect.height))
            dpi = choose_dpi(page_dpi(content, *size_pt), finest_dpi(content, *size_pt), size_pt)
            if dpi is None:
                return None
            pixels = _pdf_pixels(pymupdf, page, dpi)
            pymupdf.TOOLS.store_shrink(100)
            lost = "" if _is_empty(self._document, page) else pymupdf.TOOLS.mupdf_warnings()
            lost = lost or page_damage(pymupdf, self._document, page_number)
        if lost and is_of_one_colour(pixels):
            raise ValueError(f"it comes out empty, and parts of it cannot be read: {lost.splitlines()[0]}")
        return pixels, dpi

    def close(self) -> None:
        """Close the document."""
        if self._document is not None:
            with mupdf() as pymupdf:
                self._document.close()
                pymupdf.TOOLS.store_shrink(100)
        self._document = None

    def scan_digests(self, page_numbers: Sequence[int]) -> dict[int, str]:
        """Return the digests of each page's images, undecoded."""
        with mupdf() as pymupdf, pymupdf.open(self.path, filetype="pdf") as document:
            known: dict[int, str] = {}
            digests = {number: _page_digest(document, number - 1, known) for number in page_numbers}
        return {number: digest for number, digest in digests.items() if digest}

    def image_pages(self) -> list[Frame] | None:
        """Return nothing: the PDF is copied."""
        return None


def _pdf_pixels(pymupdf: Any, page: Any, dpi: float) -> npt.NDArray[np.uint8]:
    """Return the PyMuPDF ``page`` as RGB [height, width, 3]."""
    import numpy as np

    zoom = [whole_pixels(side, dpi) / side for side in (page.rect.width, page.rect.height)]
    pixmap = page.get_pixmap(matrix=pymupdf.Matrix(*zoom), colorspace=pymupdf.csRGB, alpha=False)
    rows = np.frombuffer(pixmap.samples_mv, dtype=np.uint8).reshape(pixmap.height, pixmap.stride)
    return rows[:, : pixmap.width * 3].reshape(pixmap.height, pixmap.width, 3).copy()


def _is_empty(document: Any, page: Any) -> bool:
    """Return whether a page has nothing to show: MuPDF complains of content without a byte, too."""
    contents = page.get_contents()
    return all(0 < xref < document.xref_length() and document.xref_stream_raw(xref) == b"" for xref in contents)


def _page_digest(document: Any, page_index: int, known: dict[int, str]) -> str:
    """Return the digests of a page's images, joined; empty for a page without any, and for a damaged one."""
    try:
        objects = [image[0] for image in document.get_page_images(page_index)]
        for number in objects:
            if number not in known:
                known[number] = hashlib.sha256(document.xref_stream_raw(number)).hexdigest()
    except Exception:  # MuPDF's errors share no class; a damaged page is told by its reading
        return ""
    return " ".join(known[number] for number in objects)
