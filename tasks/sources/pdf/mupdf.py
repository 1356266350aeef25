"""The only door to MuPDF: imported when first needed, silent, and one caller at a time.

PyMuPDF must not be entered by two threads at once, and it prints MuPDF's messages to standard output,
where ``--json`` promises nothing but its object.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

POINTS_PER_INCH = 72
ALL_PERMISSIONS = 4095

_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def mupdf() -> Iterator[Any]:
    """Yield the module ``pymupdf``, alone in it until the block ends."""
    with _ONE_AT_A_TIME:
        pymupdf = sys.modules.get("pymupdf") or _import_without_layout_models()
        pymupdf.TOOLS.mupdf_display_errors(False)
        pymupdf.TOOLS.mupdf_display_warnings(False)
        try:
            yield pymupdf
        finally:
            pymupdf.TOOLS.reset_mupdf_warnings()


def load_page(document: Any, page_index: int) -> Any:
    """Return a page of an open PDF as viewers show it: the whole MediaBox where the CropBox leaves nothing of it.

    MuPDF would show such a page white. The open document is changed; whoever saves it saves the page as it is read.

    Raises:
        ValueError: the page is lost, where MuPDF would show an empty one. It raises other errors itself.
    """
    page = document.load_page(page_index)
    low_level = sys.modules["pymupdf"].mupdf
    page_object = low_level.pdf_page_from_fz_page(page.this).obj()
    if not low_level.pdf_is_dict(page_object):
        raise ValueError("the file lists the page and does not have it")
    media_box, crop_box = (
        low_level.pdf_dict_get_inheritable(page_object, name)
        for name in (low_level.PDF_ENUM_NAME_MediaBox, low_level.PDF_ENUM_NAME_CropBox)
    )
    whole = low_level.pdf_to_rect(media_box)
    shown = low_level.fz_intersect_rect(whole, low_level.pdf_to_rect(crop_box))
    if low_level.pdf_is_array(crop_box) and low_level.fz_is_empty_rect(shown) and not low_level.fz_is_empty_rect(whole):
        low_level.pdf_dict_put_rect(page_object, low_level.PDF_ENUM_NAME_CropBox, whole)
    return page


def save_as_it_is(
    document: Any, path: str, *, encryption: int, incremental: bool = False, drop_unreachable: bool = False
) -> None:
    """Write an open PDF to ``path``: equal bytes each time, streams verbatim, and nothing changed on the way.

    PyMuPDF's own ``save`` lets every document with attachments open with the list of them (PageMode).

    Raises:
        MuPDF's ``FzErrorSystem``: it cannot be written.
    """
    low_level = sys.modules["pymupdf"].mupdf
    pdf = low_level.pdf_document_from_fz_document(document.this)
    options = low_level.PdfWriteOptions()
    options.do_incremental, options.do_garbage, options.do_encrypt = incremental, int(drop_unreachable), encryption
    options.dont_regenerate_id, options.reproducible = True, True  # neither a random identifier nor the time
    options.permissions, options.do_preserve_metadata = ALL_PERMISSIONS, True
    pdf.m_internal.resynth_required = 0
    low_level.pdf_save_document(pdf, path, options)


def _import_without_layout_models() -> Any:
    """Import PyMuPDF 2, which would load three neural networks for tables and layout if it found them.

    They are not used here and cost 0.4 s of processor time and 56 MB in every process.
    """
    sys.modules.setdefault("pymupdf.layout", None)  # type: ignore[arg-type]
    try:
        import pymupdf
    finally:
        if sys.modules.get("pymupdf.layout") is None:
            del sys.modules["pymupdf.layout"]
    return pymupdf


def add_object(document: Any, text: str) -> int:
    """Add the object that ``text`` describes to an open PDF; return its number."""
    xref = int(document.get_new_xref())
    document.update_object(xref, text)
    return xref


def add_stream(document: Any, data: bytes) -> int:
    """Add a stream of ``data`` to an open PDF; return its number."""
    xref = add_object(document, "<<>>")
    document.update_stream(xref, data)
    return xref
