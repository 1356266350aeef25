"""Everything that is read or written by URI: local paths now, ``s3://`` and other fsspec systems alike.

A file that exists under its final name is complete: local files are written beside and renamed, remote ones
in a single request (an fsspec file opened for writing publishes what it has even after an exception).
Credentials and endpoints are s3fs's own business, from the usual AWS variables.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any
from uuid import uuid4

from data_contracts.errors import BrokenChecksum, ConfigError, StorageUnavailable, TomeflowError

CHAINED = re.compile(r"::\w+://")
"""How one URI is read through another (simplecache::s3://bucket/name); a name may have :: in it as well."""

READ_BYTES = 1 << 20
"""Portion in which files are hashed and copied."""


def filesystem_of(uri: str) -> tuple[Any, str]:
    """Return the fsspec file system of ``uri`` and the path in it; no listing is remembered.

    Raises:
        ConfigError: ``uri`` begins with a protocol that is not known, or for which a package is missing.
    """
    import fsspec

    try:
        if "::" in uri and not CHAINED.search(uri):  # fsspec would take the name for a chain
            filesystem, path = fsspec.core.url_to_fs(uri.partition("::")[0])[0], fsspec.core.strip_protocol(uri)
        else:
            filesystem, path = fsspec.core.url_to_fs(uri)
    except (ValueError, ImportError) as error:
        raise ConfigError(f"{uri}: {error}. Give a path, or a URI such as s3://bucket/name.") from error
    filesystem.invalidate_cache()  # s3fs would list a folder as it was when it was first listed
    return filesystem, str(path)


def local_path(uri: str) -> Path | None:
    """Return the path behind a local URI, absolute; None for a remote one."""
    filesystem, path = filesystem_of(uri)
    return Path(path) if "file" in _protocols(filesystem) else None


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


@contextmanager
def storage_errors(uri: str, action: str) -> Iterator[None]:
    """Turn what a file system or its client raises into ``StorageUnavailable``.

    A missing or already existing file is an answer, not a failure: ``FileNotFoundError`` and
    ``FileExistsError`` pass.
    """
    try:
        yield
    except (TomeflowError, FileNotFoundError, FileExistsError):
        raise
    except Exception as error:
        if not isinstance(error, OSError) and local_path(uri) is not None:
            raise  # a fault of ours; only clients of remote storage fail with errors of their own
        raise StorageUnavailable(f"could not {action} {uri}: {error}{room_left(uri)}") from error


def room_left(uri: str) -> str:
    """Return how much room the file system of a local ``uri`` has, and what to do."""
    path = local_path(uri)
    if path is None:
        return ". Check that the endpoint answers and the credentials allow it, then run again: finished work is kept."
    place = next((parent for parent in (path, *path.parents) if parent.exists()), Path("/"))
    usage = shutil.disk_usage(place)
    return (
        f" ({usage.free / 1e9:.1f} GB of {usage.total / 1e9:.1f} GB free there). "
        "Make room or choose another folder, check its permissions, then run again: finished work is kept."
    )


def join(uri: str, *parts: str) -> str:
    """Return the URI of something below ``uri``."""
    return "/".join((uri.rstrip("/"), *parts))


def file_names(uri: str) -> list[str]:
    """Return the names of the files directly in a folder, sorted."""
    filesystem, path = filesystem_of(uri)
    with storage_errors(uri, "list"):
        entries = filesystem.ls(path, detail=True)
    return sorted(PurePosixPath(entry["name"]).name for entry in entries if entry["type"] == "file")


def read_bytes(uri: str) -> bytes:
    """Return the content of ``uri``.

    Raises:
        FileNotFoundError: there is no such file.
        StorageUnavailable: it cannot be read.
    """
    filesystem, path = filesystem_of(uri)
    with storage_errors(uri, "read"):
        return bytes(filesystem.cat_file(path))


def sha256_bytes(data: bytes) -> str:
    """Return the digest of ``data``."""
    return hashlib.sha256(data).hexdigest()


def read_verified(uri: str, sha256: str) -> bytes:
    """Return the content of ``uri`` if it is what was written there.

    Raises:
        BrokenChecksum: the file is gone, or its bytes are not the ones that were written.
        StorageUnavailable: it cannot be read.
    """
    try:
        data = read_bytes(uri)
    except FileNotFoundError as error:
        raise BrokenChecksum(f"{uri} is gone. Run again: what is missing is rebuilt.") from error
    found = sha256_bytes(data)
    if found != sha256:
        raise BrokenChecksum(
            f"{uri} has sha256 {found[:12]}, {sha256[:12]} was written: it is damaged. "
            "Run again: what is damaged is rebuilt; check the disk if it happens twice."
        )
    return data


def trim_folder(uri: str, cap_bytes: int) -> None:
    """Delete the files below ``uri`` that were written longest ago, until ``cap_bytes`` are left.

    Raises:
        StorageUnavailable: the folder cannot be listed, or a file not be deleted.
    """
    filesystem, path = filesystem_of(uri)
    with storage_errors(uri, "trim"):
        files = filesystem.find(path, detail=True)
        excess = sum(info["size"] for info in files.values()) - cap_bytes
        for name in sorted(files, key=lambda name: _written_at(files[name])):
            if excess <= 0:
                return
            with suppress(FileNotFoundError):  # somebody else trims too
                filesystem.rm_file(name)
            excess -= files[name]["size"]


def _written_at(info: Mapping[str, Any]) -> Any:
    """Return when a listed file was written: a number or a date, the same kind throughout a file system."""
    return next(info[key] for key in ("LastModified", "mtime", "created") if key in info)


def write_bytes(uri: str, data: bytes) -> None:
    """Put ``data`` at ``uri``, replacing what was there; a reader sees the old or the new, never a part.

    Raises:
        StorageUnavailable: there is no room, no permission or no answer.
    """
    path = local_path(uri)
    with storage_errors(uri, "write"):
        if path is None:
            filesystem, remote = filesystem_of(uri)
            filesystem.pipe_file(remote, data)
            return
        _make_folder(path.parent)
        part = part_of(path)
        try:
            part.write_bytes(data)
            _settle(part, path)
        finally:
            part.unlink(missing_ok=True)


def write_exclusive(uri: str, data: bytes) -> None:
    """Put ``data`` at ``uri`` if nothing is there: of several writers one wins.

    Raises:
        FileExistsError: something is there already.
        StorageUnavailable: there is no room, no permission or no answer.
    """
    path = local_path(uri)
    with storage_errors(uri, "write"):
        if path is None:
            filesystem, remote = filesystem_of(uri)
            filesystem.pipe_file(remote, data, mode="create")
            return
        _make_folder(path.parent)
        part = part_of(path)
        try:
            part.write_bytes(data)
            _sync(part)
            path.hardlink_to(part)  # unlike a rename, fails when the name is taken
        finally:
            part.unlink(missing_ok=True)


def move_in(source: Path, uri: str) -> None:
    """Put the local file ``source`` at ``uri``, replacing what was there; ``source`` is gone or spare after.

    Raises:
        StorageUnavailable: there is no room, no permission or no answer.
    """
    path = local_path(uri)
    with storage_errors(uri, "write"):
        if path is None:
            filesystem, remote = filesystem_of(uri)
            filesystem.put_file(str(source), remote)
            return
        _make_folder(path.parent)
        _settle(source, path)


def delete(uri: str) -> None:
    """Remove the file at ``uri``; nothing happens if there is none."""
    filesystem, path = filesystem_of(uri)
    with storage_errors(uri, "delete"):
        try:
            filesystem.rm_file(path)
        except FileNotFoundError:
            return


def open_local(path: Path, mode: str) -> IO[Any]:
    """Open a file of this machine's own, a lock or a log, for writing; its folder is made if need be.

    Raises:
        StorageUnavailable: the folder or the file cannot be made: there is a file in its place, no permission, no room.
    """
    with storage_errors(str(path), "write"):
        _make_folder(path.parent)
        return path.open(mode)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # would read as "somebody wrote the file before us"
        raise NotADirectoryError(f"where the folder {folder} is to be stands a file or a broken link") from error
    except FileNotFoundError as error:  # would read as "there is no such file": a folder of the system, or a lost mount
        raise NotADirectoryError(f"no folder {folder} can be made there") from error


def part_of(path: Path) -> Path:
    """Return a new name beside ``path`` for what is to become it."""
    return path.with_name(f".{path.name}.{uuid4().hex}.part")


def _settle(part: Path, path: Path) -> None:
    """Give a completely written file its final name, for good: a power cut leaves the old or the new."""
    _sync(part)
    part.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_file(uri: str) -> str:
    """Return the digest of the file at ``uri``, read in portions.

    Raises:
        FileNotFoundError: there is no such file.
        StorageUnavailable: it cannot be read.
    """
    filesystem, path = filesystem_of(uri)
    digest = hashlib.sha256()
    with storage_errors(uri, "read"), filesystem.open(path, "rb") as file:
        while portion := file.read(READ_BYTES):
            digest.update(portion)
    return digest.hexdigest()


def exists_with_sha256(uri: str, sha256: str) -> bool:
    """Return whether the file at ``uri`` has this content. That it merely exists proves nothing."""
    try:
        return sha256_file(uri) == sha256
    except FileNotFoundError:
        return False


def damaged_files(folder: str, sha256_of: Mapping[str, str]) -> list[str]:
    """Return the names of the files in ``folder`` that are missing or not what ``sha256_of`` says."""
    return [name for name, sha256 in sha256_of.items() if not exists_with_sha256(join(folder, name), sha256)]
