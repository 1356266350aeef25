"""Looks a PDF over before its first page is read: does it open, how many pages are there, what is damaged in it.

Refuses only in words: who asks decides whether a repair is tried first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_contracts.errors import EmptyDocument, EncryptedDocument, UnreadableDocument
from data_contracts.out_of_memory import is_out_of_memory
from data_contracts.source_condition import SHOWN_DAMAGES, condition_of
from tasks.sources.pdf.damage import PdfDamage
from tasks.sources.pdf.mupdf import load_page, mupdf

PDF_END, PDF_TAIL_BYTES = b"%%EOF", 1024
"""The mark at the end of a PDF, and how far from the end readers accept it."""

CUT_OFF = f"It seems to be cut off: {PDF_END.decode()}, with which a PDF ends, is not there."
GET_IT_AGAIN = "Get the file again from its source, or try to repair it (qpdf damaged.pdf repaired.pdf)."


@dataclass(frozen=True)
class PdfExamination:
    """What was found in a PDF. Invariant: without ``refusal`` at least one page opens."""

    page_count: int = 0
    refusal: UnreadableDocument | None = None
    faults: dict[int, str] = field(default_factory=dict)
    false_count: int | None = None
    """How many pages the file says it has, where it has others."""
    rebuilt_by: str | None = None
    """MuPDF with its version, where it had to search the file for its objects to open it at all."""
    condition: dict[str, Any] = field(default_factory=dict)

    @property
    def whole_pages(self) -> int:
        """How many pages are there of which nothing is known to be missing."""
        return 0 if self.refusal else self.page_count - len(self.faults)

    def is_better_than(self, other: PdfExamination) -> bool:
        """Return whether more whole pages are there than in ``other``, or as many, rightly counted."""
        more = self.whole_pages - other.whole_pages
        return more > 0 or (not more and other.false_count is not None and self.false_count is None)

    @property
    def is_damaged(self) -> bool:
        """Whether a repair may find more than there is now."""
        return bool(self.refusal or self.faults or self.rebuilt_by or self.false_count is not None)

    def damage(self) -> tuple[str, ...]:
        """Return what is wrong with it, in words; of many pages, the first."""
        counted = [f"it says that it has {self.false_count} pages"] if self.false_count is not None else []
        searched = ["its objects had to be searched for"] if self.rebuilt_by else []
        said = [f"page {number}: {fault}" for number, fault in sorted(self.faults.items())]
        more = [f"and {len(said) - SHOWN_DAMAGES} pages more"] if len(said) > SHOWN_DAMAGES else []
        return (*searched, *counted, *said[:SHOWN_DAMAGES], *more)


def needs_a_password(name: str) -> EncryptedDocument:
    """Return the refusal of a file that does not open without a password."""
    return EncryptedDocument(
        f"{name} needs a password. Remove it first: qpdf --decrypt --password=PASSWORD {name} decrypted.pdf, then "
        "digitize decrypted.pdf."
    )


def examine_pdf(path: Path, name: str) -> PdfExamination:
    """Return what MuPDF finds in the PDF at ``path``; in messages it is called ``name``."""
    with mupdf() as pymupdf:
        try:
            with pymupdf.open(path, filetype="pdf") as document:
                if document.needs_pass:
                    return PdfExamination(refusal=needs_a_password(name))
                return _examined(pymupdf, document, path, name)
        except Exception as error:  # MuPDF's errors share no class below this one
            if is_out_of_memory(error):
                raise
            hint = f"{CUT_OFF} {GET_IT_AGAIN}" if _is_cut_off(path) else GET_IT_AGAIN
            refusal = UnreadableDocument(f"{name} is a PDF too damaged to open ({error}). {hint}")
            return PdfExamination(refusal=refusal)


def _examined(pymupdf: Any, document: Any, path: Path, name: str) -> PdfExamination:
    page_count = int(document.page_count)
    if not page_count and _is_cut_off(path):
        refusal = UnreadableDocument(f"{name} is a PDF of which no page is found. {CUT_OFF} {GET_IT_AGAIN}")
        return PdfExamination(refusal=refusal)
    if not page_count:
        return PdfExamination(refusal=EmptyDocument(f"{name} is a PDF without pages. {GET_IT_AGAIN}"))
    if error := _why_no_page_opens(document, page_count):
        return PdfExamination(
            page_count,
            UnreadableDocument(
                f"{name} says it has {page_count} pages, but none of them can be opened ({error}). {GET_IT_AGAIN}"
            ),
        )
    damage = PdfDamage(pymupdf, document)
    try:
        faults = damage.pages()
    finally:
        damage.close()
    said, page_count = page_count, int(document.page_count)  # once it has seen the pages MuPDF counts them itself
    false_count = said if said != page_count else None
    rebuilt_by = f"MuPDF {pymupdf.mupdf_version}" if document.is_repaired else None
    return PdfExamination(page_count, None, faults, false_count, rebuilt_by, condition_of(pymupdf, document))


def _why_no_page_opens(document: Any, page_count: int) -> Exception | None:
    """Return why the last page does not open where none does; single damaged pages fail later, on their own."""
    error: Exception | None = None
    for page_index in range(page_count):
        try:
            load_page(document, page_index)
        except Exception as failure:
            error = failure
        else:
            return None
    return error


def _is_cut_off(path: Path) -> bool:
    """Return whether a PDF lacks the mark that every PDF ends with."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - PDF_TAIL_BYTES, 0))
        return PDF_END not in file.read()
