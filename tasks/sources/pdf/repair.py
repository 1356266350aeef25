"""A copy of a damaged PDF as qpdf repairs it: equal bytes each time, streams verbatim.

qpdf finds objects without a cross-reference table, pages without counts, streams without lengths; what it does not
find it drops. Pages without a usable MediaBox get the Letter page that every viewer shows them on, widened to what
lies on it. Source: https://qpdf.readthedocs.io/en/stable/cli.html (repair), pikepdf.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.sources.pdf.damage import LOST_CONTENT
from tasks.sources.pdf.mupdf import mupdf, save_as_it_is

LARGEST_SIDE_PT = 14_400.0
"""Of a page, by ISO 32000-1, annex C."""

VERBATIM: dict[str, Any] = {"compress_streams": False, "recompress_flate": False, "deterministic_id": True}
"""Settings under which qpdf copies streams as they are and writes equal bytes each time."""

LETTER = (0.0, 0.0, 612.0, 792.0)
_NEXT_PDF = re.compile(rb"%%EOF\s{0,16}%PDF-")
_ENCRYPTED = b"/Encrypt"


def repairer() -> str:
    """Return the program that repairs, with its version."""
    import pikepdf

    return f"qpdf {pikepdf.__libqpdf_version__}"


def write_repaired(source: Path, target: Path, boxless_pages: Sequence[int] = ()) -> None:
    """Write ``source`` repaired to ``target``; the pages ``boxless_pages`` get a MediaBox that holds their content.

    Raises:
        PermissionError: it needs a password.
        ValueError: it cannot be repaired.
        OSError: there is no room.
    """
    import pikepdf

    try:
        with pikepdf.open(source, suppress_warnings=True) as pdf:
            if not len(pdf.pages):
                raise ValueError("qpdf finds no page in it")
            for page in pdf.pages:
                if _lost_its_content(page.obj):
                    page.obj[f"/{LOST_CONTENT}"] = True
            pdf.save(target, encryption=False, stream_decode_level=pikepdf.StreamDecodeLevel.none, **VERBATIM)
    except pikepdf.PasswordError as error:
        raise PermissionError(str(error)) from error
    except (pikepdf.PdfError, RuntimeError) as error:
        raise ValueError(str(error)) from error
    if boxless_pages:
        _widen(target, boxless_pages)


def _lost_its_content(page: Any) -> bool:
    """Return whether a page names content, of which no stream is there."""
    import pikepdf

    named = [value for key, value in page.items() if key == "/Contents"]  # alone items() shows what leads nowhere
    parts = [part for value in named for part in (value if isinstance(value, pikepdf.Array) else [value])]
    return bool(parts) and not any(isinstance(part, pikepdf.Stream) for part in parts)


def is_followed_by_another(path: Path) -> bool:
    """Return whether the file is several PDFs one after the other, of which readers see the last."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _NEXT_PDF.search(content) is not None


def says_it_is_encrypted(path: Path) -> bool:
    """Return whether the bytes of a PDF that cannot be opened speak of encryption."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(_ENCRYPTED) >= 0


def _widen(path: Path, page_numbers: Sequence[int]) -> None:
    """Give the pages a MediaBox that holds what lies on them."""
    with mupdf() as pymupdf, pymupdf.open(path, filetype="pdf") as document:
        for page_number in page_numbers:
            if page_number > document.page_count:
                continue
            page = document.load_page(page_number - 1)
            sides = " ".join(f"{side:.2f}" for side in _needed_box(pymupdf, page))
            document.xref_set_key(page.xref, "MediaBox", f"[{sides}]")
        save_as_it_is(document, document.name, encryption=pymupdf.PDF_ENCRYPT_KEEP, incremental=True)


def _needed_box(pymupdf: Any, page: Any) -> Any:
    """Return the Letter page, widened to what the page draws, in its user space [pt]."""
    low_level = pymupdf.mupdf
    shown_box, shown = low_level.FzRect(low_level.FzRect.Fixed_UNIT), low_level.FzMatrix()
    low_level.pdf_page_transform(low_level.pdf_page_from_fz_page(page.this), shown_box, shown)
    to_user_space = ~pymupdf.Matrix(shown.a, shown.b, shown.c, shown.d, shown.e, shown.f)
    needed, largest = pymupdf.Rect(LETTER), pymupdf.Rect(-1, -1, 1, 1) * LARGEST_SIDE_PT
    for _, box, *_ in page.get_bboxlog():
        drawn = pymupdf.Rect(box) * to_user_space
        if drawn.is_valid and drawn in largest:
            needed |= drawn
    return needed
