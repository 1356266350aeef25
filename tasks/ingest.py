"""Turns what the user names into a document: what kind it is, how many pages it has, what its bytes hash to.

The kind is told by content, never by suffix. A damaged PDF that MuPDF can repair is a document; one that
has no page to show, or wants a password, is not.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from data_contracts.document import DocumentRef, document_id, require_utf8_name, shown_name
from data_contracts.errors import EmptyDocument, EncryptedDocument, NotADocument, TomeflowError, UnreadableDocument
from data_contracts.isolation import BOUND_SECONDS, document_bounds, isolated_call, seconds_for
from data_contracts.mupdf import load_page, mupdf
from data_contracts.page_images import KINDS_IN_WORDS, file_kind, folder_files, frames_of
from data_contracts.process_memory import is_out_of_memory
from data_contracts.source_stamp import source_stamp
from tasks import spool, storage

LOGGER = logging.getLogger("tomeflow.ingest")

PDF_END, PDF_TAIL_BYTES = b"%%EOF", 1024
"""The mark at the end of a PDF, and how far from the end readers accept it."""

CUT_OFF = f"It seems to be cut off: {PDF_END.decode()}, with which a PDF ends, is not there."
GET_IT_AGAIN = "Get the file again from its source, or try to repair it (qpdf damaged.pdf repaired.pdf)."


def fetch_document(uri: str, spool_folder: Path, seconds: float = BOUND_SECONDS) -> tuple[DocumentRef, Path]:
    """Return the document at ``uri`` and a local path to it; remote sources are copied into ``spool_folder``.

    ``seconds`` is the processor time that opening it may take, and more if it is large.

    Raises:
        UnreadableDocument: it is missing or too damaged, or its name is not UTF-8.
        EncryptedDocument: it needs a password.
        EmptyDocument: it has no pages.
        NotADocument: it is neither a PDF nor an image.
        TooCostlyDocument: to open it and count its pages takes too much time or memory.
        StorageUnavailable: it cannot be fetched.
    """
    require_utf8_name(_absolute(uri))
    try:
        path = spool.spool(uri, spool_folder)
        with storage.storage_errors(uri, "read"):
            return (_folder_document if path.is_dir() else _file_document)(uri, path, seconds), path
    except FileNotFoundError as error:
        raise UnreadableDocument(f"there is no file or folder {uri}. Check its spelling.") from error


@contextmanager
def fetched(uri: str, spool_folder: Path, seconds: float = BOUND_SECONDS) -> Iterator[tuple[DocumentRef, Path]]:
    """Yield what ``fetch_document`` returns; a copy in the spool is not dropped while the block runs."""
    document, path = fetch_document(uri, spool_folder, seconds)
    with spool.hold_spooled(path, spool_folder):
        yield document, path


def require_same(document: DocumentRef, sha256: str) -> None:
    """Refuse a source that is not what it was.

    Raises:
        UnreadableDocument: its content is another one than that of ``sha256``.
    """
    if document.sha256 != sha256:
        what = "a page file was replaced, added or removed" if document.kind == "folder" else "its bytes are others"
        raise UnreadableDocument(
            f"{document.uri} has changed since it was digitized ({what}): sha256 {document.sha256[:12]}, then "
            f"{sha256[:12]}. By its content it is another document now: digitize it anew (tomeflow run), or put back "
            "what was there."
        )


def _file_document(uri: str, path: Path, seconds: float) -> DocumentRef:
    if not path.stat().st_size:
        raise NotADocument(f"{path.name} is empty (0 bytes); expected {KINDS_IN_WORDS}.")
    kind = file_kind(path)
    if kind is None:
        raise NotADocument(f"{path.name} is not {KINDS_IN_WORDS}, whatever its name says.")
    stamp = source_stamp(path)
    page_count = _bounded_count(_pdf_page_count if kind == "pdf" else _image_page_count, path, seconds)
    sha256 = storage.sha256_file(str(path))
    return DocumentRef(
        document_id=document_id(path.name, sha256),
        uri=_absolute(uri),
        sha256=sha256,
        page_count=page_count,
        kind="pdf" if kind == "pdf" else "image",
        stamp=stamp,
    )


def _folder_document(uri: str, path: Path, seconds: float) -> DocumentRef:
    """Return a folder of page images as one document; its sha256 is over the names and digests of the pages."""
    name = PurePosixPath(_absolute(uri).rstrip("/")).name
    images, ignored = folder_files(path)
    if ignored:
        LOGGER.warning("%s: left out, since not page images: %s", name, ", ".join(map(shown_name, ignored)))
    if not images:
        raise EmptyDocument(
            f"the folder {name} holds no page images (PNG, JPEG, TIFF, WebP, JPEG 2000). PDFs in it are documents of "
            f"their own: name them, or have all taken with tomeflow ingest {uri}"
        )
    stamp, digest = source_stamp(path), hashlib.sha256()
    for image in images:
        digest.update(f"{image.name}\0{storage.sha256_file(str(image))}\n".encode(errors="surrogateescape"))
    sha256 = digest.hexdigest()
    return DocumentRef(
        document_id=document_id(name, sha256),
        uri=_absolute(uri),
        sha256=sha256,
        page_count=_bounded_count(_image_page_count, path, seconds),
        kind="folder",
        stamp=stamp,
    )


def _absolute(uri: str) -> str:
    path = storage.local_path(uri)
    return str(path) if path is not None else uri


def _bounded_count(count: Callable[[Path], int], path: Path, seconds: float) -> int:
    with document_bounds(path.name, "opened"):
        return int(isolated_call(count, path, seconds=seconds_for(path, seconds)))


def _image_page_count(path: Path) -> int:
    return len(frames_of(path))


def _pdf_page_count(path: Path) -> int:
    with mupdf() as pymupdf:
        try:
            with pymupdf.open(path, filetype="pdf") as document:
                if document.needs_pass:
                    raise EncryptedDocument(
                        f"{path.name} needs a password. Remove it first: qpdf --decrypt --password=PASSWORD "
                        f"{path.name} decrypted.pdf, then digitize decrypted.pdf."
                    )
                page_count = int(document.page_count)
                if not page_count and _is_cut_off(path):
                    raise UnreadableDocument(
                        f"{path.name} is a PDF of which no page is found. {CUT_OFF} {GET_IT_AGAIN}"
                    )
                if not page_count:
                    raise EmptyDocument(f"{path.name} is a PDF without pages. {GET_IT_AGAIN}")
                _check_that_a_page_opens(document, page_count, path.name)
                return page_count
        except TomeflowError:
            raise
        except Exception as error:  # MuPDF's errors share no class below this one
            if is_out_of_memory(error):
                raise
            hint = f"{CUT_OFF} {GET_IT_AGAIN}" if _is_cut_off(path) else GET_IT_AGAIN
            raise UnreadableDocument(f"{path.name} is a PDF too damaged to open ({error}). {hint}") from error


def _is_cut_off(path: Path) -> bool:
    """Return whether a PDF lacks the mark that every PDF ends with."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - PDF_TAIL_BYTES, 0))
        return PDF_END not in file.read()


def _check_that_a_page_opens(document: Any, page_count: int, name: str) -> None:
    """Refuse a PDF in which no page can be found; single damaged pages fail later, on their own."""
    error: Exception | None = None
    for page_index in range(page_count):
        try:
            load_page(document, page_index)
        except Exception as failure:
            error = failure
        else:
            return
    raise UnreadableDocument(
        f"{name} says it has {page_count} pages, but none of them can be opened ({error}). {GET_IT_AGAIN}"
    )
