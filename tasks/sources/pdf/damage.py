"""What of a page is damaged in the file, told from its objects alone, before anything is drawn.

A page without content is blank and whole; one whose content the file names and does not have is damaged, though
viewers show it white (ISO 32000-1, 7.3.10: a reference to a missing object is null). Looks at the page's boxes,
its content streams and its pictures; at what forms refer to in turn it does not look.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OVERLONG_BYTES = 16
"""A stream that is said to be this much longer than it is loses nothing: what reads it finds its end."""

LOST_CONTENT = "TomeflowLostContent"
"""Key by which a repaired page says that it had content; to repair a file is to drop what it does not have."""

BOXLESS = "its MediaBox is not a rectangle"

_AFTER_STREAM = b"endstream"
_WHITE = b" \t\r\n\f\0"


class PdfDamage:
    """Looks for damage in one open PDF; remembers what it has looked at, so that shared resources cost once."""

    def __init__(self, pymupdf: Any, document: Any) -> None:
        """Look at ``document``, of PyMuPDF, while the caller holds MuPDF."""
        self._low_level = pymupdf.mupdf
        self._document = document
        self._pdf = self._low_level.pdf_document_from_fz_document(document.this)
        self._picture_faults: dict[int, str] = {}
        self._file = Path(document.name).open("rb") if document.name else None  # noqa: SIM115  # closed by close

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()

    def pages(self) -> dict[int, str]:
        """Return page number -> what is wrong with it, of damaged pages only."""
        faults = {number: self.page(number) for number in range(1, int(self._document.page_count) + 1)}
        return {number: fault for number, fault in faults.items() if fault}

    def page(self, page_number: int) -> str:
        """Return what is wrong with a page; empty if nothing is."""
        try:
            page = self._low_level.pdf_lookup_page_obj(self._pdf, page_number - 1)
            if not self._low_level.pdf_is_dict(page):
                return "the file lists the page and does not have it"
            return next(self._faults(page), "")
        except Exception as error:  # MuPDF's errors share no class below this one
            return f"it cannot be opened ({error})"

    def _faults(self, page: Any) -> Iterator[str]:
        low_level = self._low_level
        if low_level.pdf_is_bool(low_level.pdf_dict_gets(page, LOST_CONTENT)):
            yield "its content is missing from the file"
        content = low_level.pdf_dict_gets(page, "Contents")
        if low_level.pdf_is_array(content):
            parts = [low_level.pdf_array_get(content, index) for index in range(low_level.pdf_array_len(content))]
        else:
            parts = [content]
        parts = [part for part in parts if low_level.pdf_is_indirect(part) or not low_level.pdf_is_null(part)]
        if not parts:
            return
        if not is_rectangle(low_level, low_level.pdf_dict_get_inheritable(page, low_level.PDF_ENUM_NAME_MediaBox)):
            yield BOXLESS
        yield from filter(None, (self._stream_fault("its content", part) for part in parts))
        resources = low_level.pdf_dict_get_inheritable(page, low_level.PDF_ENUM_NAME_Resources)
        yield from filter(None, [self._pictures_fault(low_level.pdf_dict_gets(resources, "XObject"))])

    def _pictures_fault(self, pictures: Any) -> str:
        if not self._low_level.pdf_is_dict(pictures):
            return ""
        place = self._low_level.pdf_to_num(pictures) or -self._low_level.pdf_obj_parent_num(pictures)
        if place not in self._picture_faults:
            values = (
                self._low_level.pdf_dict_get_val(pictures, index)
                for index in range(self._low_level.pdf_dict_len(pictures))
            )
            self._picture_faults[place] = next(filter(None, (self._stream_fault("a picture", v) for v in values)), "")
        return self._picture_faults[place]

    def _stream_fault(self, what: str, stream: Any) -> str:
        number = int(self._low_level.pdf_to_num(stream))
        if not self._low_level.pdf_is_stream(stream):
            return f"{what} is missing ({f'object {number}' if number else 'what is there is no stream'})"
        entry = self._low_level.ll_pdf_cache_object(self._pdf.m_internal, number)
        length = int(self._low_level.pdf_dict_get_int(stream, self._low_level.PDF_ENUM_NAME_Length))
        if self._file is None or entry.stm_buf or entry.stm_ofs <= 0:
            return ""
        return "" if self._ends_there(int(entry.stm_ofs), length) else f"{what} (object {number}) has another length"

    def _ends_there(self, start: int, length: int) -> bool:
        """Return whether the stream that begins at ``start`` ends where its length says."""
        assert self._file is not None
        back = min(max(length, 0), OVERLONG_BYTES)
        self._file.seek(start + max(length, 0) - back)
        around = self._file.read(back + len(_AFTER_STREAM) + OVERLONG_BYTES)
        return around[back:].lstrip(_WHITE).startswith(_AFTER_STREAM) or _AFTER_STREAM in around[: back + 9]


def page_damage(pymupdf: Any, document: Any, page_number: int) -> str:
    """Return what is wrong with one page of an open PDF; empty if nothing is."""
    damage = PdfDamage(pymupdf, document)
    try:
        return damage.page(page_number)
    finally:
        damage.close()


def is_rectangle(low_level: Any, box: Any) -> bool:
    """Return whether a box is four numbers with an area between them, in whatever order its corners come."""
    if low_level.pdf_array_len(box) < 4:
        return False
    sides = [low_level.pdf_array_get(box, index) for index in range(4)]
    if not all(low_level.pdf_is_number(side) for side in sides):
        return False
    left, bottom, right, top = (float(low_level.pdf_to_real(side)) for side in sides)
    return all(map(math.isfinite, (left, bottom, right, top))) and left != right and bottom != top
