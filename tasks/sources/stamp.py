"""Notices that a source is replaced while it is read: sizes and times of its files, taken before they are hashed.

Pages are rendered over hours from files that others may write to; what was read of another book must neither be
published nor stay as a checkpoint.
"""

from __future__ import annotations

from pathlib import Path

from data_contracts.document import DocumentRef
from data_contracts.errors import StorageUnavailable, UnreadableDocument
from tasks.sources.page_images import folder_files


def source_stamp(path: Path) -> str:
    """Return what changes with every write to the file, or to the page images of the folder, at ``path``.

    Raises:
        OSError: it is not there.
    """
    files = folder_files(path)[0] if path.is_dir() else [path]
    return " ".join(f"{file.name}:{(about := file.stat()).st_size}:{about.st_mtime_ns}" for file in files)


def require_unchanged(document: DocumentRef, path: Path) -> None:
    """Refuse to go on with a source that is no longer what ``document`` was told from.

    Raises:
        UnreadableDocument: it was written to, or replaced.
        StorageUnavailable: it is gone, maybe for a while.
    """
    try:
        stamp = source_stamp(path)
    except OSError as error:
        raise StorageUnavailable(
            f"{document.uri} went away while it was read ({error}). Bring it back and run again."
        ) from error
    if document.stamp and stamp != document.stamp:
        raise UnreadableDocument(
            f"{document.uri} was changed while it was read, so nothing of it is published. Run again when nobody "
            "writes to it; put back what was there, and what is finished is kept."
        )
