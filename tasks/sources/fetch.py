"""Turns what the user names into a document: what kind it is, how many pages it has, what its bytes hash to.

The kind is told by content, never by suffix. A damaged PDF that MuPDF or qpdf can repair is a document; one that
has no page to show, or wants a password, is not. Identity and digest are those of the bytes as they came; what
qpdf repairs is read from a copy in the spool.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from data_contracts.document import DocumentRef, document_id, require_utf8_name
from data_contracts.errors import UnreadableDocument
from tasks import storage
from tasks.isolation import BOUND_SECONDS
from tasks.sources import spool
from tasks.sources.protocol import Asked
from tasks.sources.registry import SOURCES, source_at
from tasks.sources.stamp import require_unchanged, source_stamp


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
            return _document(uri, path, spool_folder, seconds)
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
        what = SOURCES[document.kind].changed
        raise UnreadableDocument(
            f"{document.uri} has changed since it was digitized ({what}): sha256 {document.sha256[:12]}, then "
            f"{sha256[:12]}. By its content it is another document now: digitize it anew (tomeflow run), or put back "
            "what was there."
        )


def _document(uri: str, path: Path, spool_folder: Path, seconds: float) -> tuple[DocumentRef, Path]:
    """Return what lies at ``path`` as a document, and the path to read it from: its own, or that of a mended copy."""
    source = source_at(path)
    name = PurePosixPath(_absolute(uri).rstrip("/")).name if path.is_dir() else path.name
    stamp, sha256 = source_stamp(path), source.sha256()
    examined = source.examine(Asked(name, uri, sha256, spool_folder, seconds))
    document = DocumentRef(
        document_id=document_id(name, sha256),
        uri=_absolute(uri),
        sha256=sha256,
        page_count=examined.page_count,
        kind=source.name,
        stamp=stamp,
        condition=examined.condition,
    )
    if examined.readable == path:
        return document, path
    require_unchanged(document, path)  # the copy is of the bytes that were hashed; from here on it alone is read
    return document.model_copy(update={"stamp": source_stamp(examined.readable)}), examined.readable


def _absolute(uri: str) -> str:
    path = storage.local_path(uri)
    return str(path) if path is not None else uri
