"""Local copies of remote sources, and what is made of sources: made once, in a folder that keeps below a cap.

A copy that is there is whole. Locks are the kernel's, on the copy itself, so that they die with their holder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from data_contracts.errors import StorageUnavailable
from tasks import listing, storage

SPOOL_CAP_BYTES = 20 << 30
"""Local copies of remote sources are dropped, longest unused first, beyond this much."""

COPY_ATTEMPTS = 3
"""A source that changes during this many copies is still being written."""


def spool(uri: str, folder: Path, cap_bytes: int = SPOOL_CAP_BYTES) -> Path:
    """Return a local path to the file or folder at ``uri``: itself if it is local, else a copy in ``folder``.

    A copy lies under a digest of the URI and of the versions (ETags) of its files, so it is made again only
    when one of them has changed; one that changes while it is copied is copied again, since a large file comes
    in parts. ``folder`` keeps at most ``cap_bytes`` of copies: the longest unused go first, never the one just
    asked for, nor one that somebody holds (``hold_spooled``).

    Raises:
        FileNotFoundError: there is nothing at ``uri``.
        StorageUnavailable: it cannot be read, does not stop changing, or the copy cannot be written.
    """
    path = storage.local_path(uri)
    if path is not None:
        return path
    for _ in range(COPY_ATTEMPTS):
        is_file, sources = _remote_files(uri)
        versions = [uri, *(f"{source.name} {source.version}" for source in sources)]
        copy = folder / hashlib.sha256("\n".join(versions).encode()).hexdigest()
        if copy.exists() or _copy_in(sources, uri, copy):
            os.utime(copy)
            _keep_below(folder, cap_bytes, copy)
            return copy / sources[0].name if is_file else copy
    raise StorageUnavailable(f"{uri} changed {COPY_ATTEMPTS} times while it was copied. Run again when it is complete.")


def derived(key: str, name: str, folder: Path, write: Callable[[Path], None], cap_bytes: int = SPOOL_CAP_BYTES) -> Path:
    """Return the path in ``folder`` to what ``write`` makes, a file called ``name``; made once for each ``key``.

    It lies in the spool as a copy does: whole if it is there, and dropped when it has long not been used.
    """
    copy = folder / hashlib.sha256(key.encode()).hexdigest()
    if not copy.exists():
        part = storage.part_of(copy)
        try:
            part.mkdir(parents=True)
            with _held(part):
                write(part / name)
                _settle(part, copy)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    os.utime(copy)
    _keep_below(folder, cap_bytes, copy)
    return copy / name


def _remote_files(uri: str) -> tuple[bool, list[listing.ListedFile]]:
    """Return whether ``uri`` is a file, and the files directly in it or itself, by name."""
    filesystem, remote = storage.filesystem_of(uri)
    with storage.storage_errors(uri, "look at"):
        is_file = not filesystem.isdir(remote)
        entries = [filesystem.info(remote)] if is_file else filesystem.ls(remote, detail=True)
    listed = [
        listing.ListedFile(
            entry["name"], PurePosixPath(entry["name"]).name, int(entry["size"]), listing.content_version(entry)
        )
        for entry in entries
        if entry["type"] == "file"
    ]
    return is_file, sorted(listed, key=lambda file: file.name)


def _copy_in(sources: list[listing.ListedFile], uri: str, copy: Path) -> bool:
    """Fetch ``sources`` into the folder ``copy``, which appears when it is complete; False if one has changed."""
    filesystem, _ = storage.filesystem_of(uri)
    part = storage.part_of(copy)
    try:
        with storage.storage_errors(str(copy), "copy a source into"):
            copy.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                with _held(copy.parent):  # between the two, another run would take it for what a killed one has left
                    part.mkdir()
                    stack.enter_context(_held(part))
                for source in sources:
                    with storage.storage_errors(uri, "read"):
                        filesystem.get_file(source.uri, str(part / source.name))
                if _remote_files(uri)[1] != sources:
                    return False
                _settle(part, copy)
                return True
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _settle(part: Path, copy: Path) -> None:
    try:
        part.replace(copy)
    except OSError:
        if not copy.exists():  # else another run was faster
            raise


@contextmanager
def hold_spooled(path: Path, folder: Path) -> Iterator[None]:
    """Keep the copy at ``path`` in the spool ``folder`` while the block runs; a path elsewhere needs no holding.

    Raises:
        StorageUnavailable: the copy has been dropped between ``spool`` and now.
    """
    if folder.resolve() not in path.resolve().parents:
        yield
        return
    copy = folder / path.resolve().relative_to(folder.resolve()).parts[0]
    try:
        with _held(copy):
            yield
    except FileNotFoundError as error:
        if copy.exists():
            raise
        raise StorageUnavailable(f"the local copy {path} was dropped to make room. Run again.") from error


@contextmanager
def _held(copy: Path, how: int = fcntl.LOCK_SH) -> Iterator[None]:
    """Hold a lock on a folder that dies with this process; its name may change meanwhile."""
    descriptor = os.open(copy, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _keep_below(folder: Path, cap_bytes: int, newest: Path) -> None:
    """Drop what a killed run left half copied, then the longest unused copies, until ``cap_bytes`` are left."""
    copies = sorted(folder.iterdir(), key=_last_used)
    with _held(folder, fcntl.LOCK_EX):
        for copy in copies:
            if copy.name.startswith("."):
                _drop(copy)
    sizes = {copy: _size_bytes(copy) for copy in copies}
    excess = sum(sizes.values()) - cap_bytes
    for copy, size_bytes in sizes.items():
        if excess > 0 and copy != newest and _drop(copy):
            excess -= size_bytes


def _last_used(copy: Path) -> float:
    try:
        return copy.stat().st_mtime
    except FileNotFoundError:  # another run has finished or dropped it
        return 0.0


def _size_bytes(copy: Path) -> int:
    try:
        return sum(path.stat().st_size for path in copy.iterdir())
    except FileNotFoundError:  # another run dropped it
        return 0


def _drop(copy: Path) -> bool:
    """Remove a copy unless somebody holds it; return whether it is gone."""
    try:
        descriptor = os.open(copy, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(copy)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
