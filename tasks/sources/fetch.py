"""Turns what the user names into a document: what kind it is, how many pages it has, what its bytes hash to.

The kind is told by content, never by suffix. A damaged PDF that MuPDF or qpdf can repair is a document; one that
has no page to show, or wants a password, is not. Identity and digest are those of the bytes as they came; what
qpdf repairs is read from a copy in the spool.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from data_contracts.document import DocumentRef, document_id, require_utf8_name, shown_name
from data_contracts.errors import EmptyDocument, EncryptedDocument, NotADocument, UnreadableDocument
from data_contracts.source_condition import SourceCondition
from tasks import storage
from tasks.isolation import BOUND_SECONDS, document_bounds, isolated_call, seconds_for
from tasks.sources import spool
from tasks.sources.page_images import KINDS_IN_WORDS, file_kind, folder_files, frames_of
from tasks.sources.pdf.damage import BOXLESS
from tasks.sources.pdf.examination import PdfExamination, examine_pdf, needs_a_password
from tasks.sources.pdf.repair import is_followed_by_another, repairer, says_it_is_encrypted, write_repaired
from tasks.sources.stamp import require_unchanged, source_stamp

LOGGER = logging.getLogger("tomeflow.ingest")


def fetch_document(uri: str, spool_folder: Path, seconds: float = BOUND_SECONDS) -> tuple[DocumentRef, Path]:
    """Return the document at ``uri`` and a local path to read it from.

    Remote sources, and what had to be repaired, are copied into ``spool_folder``.

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
            if path.is_dir():
                return _folder_document(uri, path, seconds), path
            return _file_document(uri, path, spool_folder, seconds)
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


def _file_document(uri: str, path: Path, spool_folder: Path, seconds: float) -> tuple[DocumentRef, Path]:
    """Return a file as a document, and the path to read it from: its own, or that of a repaired copy."""
    if not path.stat().st_size:
        raise NotADocument(f"{path.name} is empty (0 bytes); expected {KINDS_IN_WORDS}.")
    kind = file_kind(path)
    if kind is None:
        raise NotADocument(f"{path.name} is not {KINDS_IN_WORDS}, whatever its name says.")
    stamp, sha256 = source_stamp(path), storage.sha256_file(str(path))
    if kind == "pdf":
        readable, page_count, condition = _readable_pdf(path, sha256, spool_folder, seconds)
    else:
        readable, page_count, condition = path, int(_bounded(path, seconds, _image_page_count, path)), SourceCondition()
    document = DocumentRef(
        document_id=document_id(path.name, sha256),
        uri=_absolute(uri),
        sha256=sha256,
        page_count=page_count,
        kind="pdf" if kind == "pdf" else "image",
        stamp=stamp,
        condition=condition,
    )
    if readable == path:
        return document, path
    require_unchanged(document, path)  # the copy is of the bytes that were hashed; from here on it alone is read
    return document.model_copy(update={"stamp": source_stamp(readable)}), readable


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
        page_count=int(_bounded(path, seconds, _image_page_count, path)),
        kind="folder",
        stamp=stamp,
    )


def _absolute(uri: str) -> str:
    path = storage.local_path(uri)
    return str(path) if path is not None else uri


def _bounded(path: Path, seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)`` about ``path`` from a process of its own, within bounds."""
    with document_bounds(path.name, "opened"):
        return isolated_call(function, *arguments, seconds=seconds_for(path, seconds))


def _image_page_count(path: Path) -> int:
    return len(frames_of(path))


def _readable_pdf(path: Path, sha256: str, spool_folder: Path, seconds: float) -> tuple[Path, int, SourceCondition]:
    """Return the PDF to read, its number of pages and its condition: ``path``, or a repaired copy if that has more.

    Raises:
        UnreadableDocument: there is no page to read, or it needs a password.
        TooCostlyDocument: it takes too much time or memory.
    """
    found: PdfExamination = _bounded(path, seconds, examine_pdf, path, path.name)
    if not found.is_damaged:
        return path, found.page_count, SourceCondition(**found.condition)
    copy = None
    if not isinstance(found.refusal, EncryptedDocument):
        copy = _repaired(path, sha256, spool_folder, found, seconds)
    again: PdfExamination = _bounded(copy, seconds, examine_pdf, copy, path.name) if copy else found
    is_repaired = copy is not None and again.is_better_than(found)
    if found.refusal and not is_repaired:
        raise found.refusal
    damage = [_cause(found.refusal)] if found.refusal else list(found.damage())
    damage += ["it is several PDFs one after the other, the last is read"] if is_followed_by_another(path) else []
    if copy is None or not is_repaired:
        condition = SourceCondition(**found.condition, damage=tuple(damage), repaired_by=found.rebuilt_by)
        return path, found.page_count, condition
    about = {**again.condition, **found.condition, "damage": tuple(dict.fromkeys([*damage, *again.damage()]))}
    return copy, again.page_count, SourceCondition(**about, repaired_by=repairer())


def _repaired(path: Path, sha256: str, spool_folder: Path, found: PdfExamination, seconds: float) -> Path | None:
    """Return a repaired copy in the spool; None where qpdf cannot repair it either.

    Raises:
        EncryptedDocument: what keeps it from being opened is a password.
        StorageUnavailable: there is no room for the copy.
    """
    boxless = [number for number, fault in found.faults.items() if fault == BOXLESS]
    try:
        with storage.storage_errors(str(spool_folder), "put a repaired copy into"):
            return spool.derived(
                f"{sha256} {repairer()}",
                path.name,
                spool_folder,
                lambda copy: _bounded(path, seconds, write_repaired, path, copy, boxless),
            )
    except PermissionError as error:
        raise needs_a_password(path.name) from error
    except ValueError as error:
        LOGGER.debug("%s", path.name, exc_info=True)
        if found.refusal and says_it_is_encrypted(path):
            raise needs_a_password(path.name) from error
        return None


def _cause(refusal: UnreadableDocument) -> str:
    """Return the first sentence of a refusal: what to do about it is done."""
    return refusal.message.partition(". ")[0]
