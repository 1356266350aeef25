"""What lies below a folder or a prefix: every file with its size and a version that changes with its content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tasks import storage


@dataclass(frozen=True)
class ListedFile:
    """A file below a folder as its listing shows it. ``version`` changes whenever the content does."""

    uri: str
    name: str
    """Relative to the folder that was listed."""
    size_bytes: int
    version: str


def list_files(uri: str) -> list[ListedFile]:
    """Return every file below the folder or prefix ``uri``, at any depth; the file itself if it is one.

    Raises:
        FileNotFoundError: there is nothing at ``uri``.
        StorageUnavailable: it cannot be listed.
    """
    filesystem, path = storage.filesystem_of(uri)
    with storage.storage_errors(uri, "list"):
        found = filesystem.find(path, detail=True)
        if not found and not filesystem.isdir(path):
            raise FileNotFoundError(f"there is nothing at {uri}")
    root = path.rstrip("/")
    return [
        ListedFile(
            uri=uri if name == root else storage.join(uri, name.removeprefix(root).lstrip("/")),
            name=PurePosixPath(name).name if name == root else name.removeprefix(root).lstrip("/"),
            size_bytes=int(info["size"]),
            version=content_version(info),
        )
        for name, info in found.items()
    ]


def content_version(info: Mapping[str, Any]) -> str:
    """Return what tells one content from the next: an object's ETag; locally size, times and inode together."""
    return str(info.get("ETag") or [info.get(key) for key in ("size", "mtime", "created", "ino")])


def read_head(file: ListedFile, size_bytes: int) -> bytes:
    """Return the first ``size_bytes`` of ``file``, or all of it if it is shorter.

    Raises:
        FileNotFoundError: it is gone.
        StorageUnavailable: it cannot be read.
    """
    if not file.size_bytes:
        return b""  # object stores refuse a range of nothing
    filesystem, path = storage.filesystem_of(file.uri)
    with storage.storage_errors(file.uri, "read"):
        return bytes(filesystem.cat_file(path, start=0, end=min(size_bytes, file.size_bytes)))
