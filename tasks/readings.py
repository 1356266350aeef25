"""What was read of one document, on local disk between reading and publishing: one page a line.

A chunk's result is fetched once from where checkpoints lie, which may be an object store; everybody after that reads
here. The file has no name: it is gone with its holder, however the holder ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from data_contracts.document import StateRef
from data_contracts.result import ChunkResult, PageResult, PageStatus
from tasks import storage


@dataclass(frozen=True)
class _Chunk:
    """Where a chunk lies in the file [bytes], how many pages it has, and the state after it."""

    position: int
    pages: int
    state: StateRef


class Readings:
    """The chunks of one document, in order, as they are to be published; a context manager.

    Invariant: holds no reading in memory, of a page its number and status alone.
    """

    def __init__(self, folder: Path) -> None:
        """Make a file on the disk of ``folder``.

        Raises:
            StorageUnavailable: there is no room or no permission.
        """
        self._folder = folder
        self._chunks: list[_Chunk] = []
        self.statuses: list[tuple[int, PageStatus]] = []
        """Number and status of each page, as they came."""
        with storage.storage_errors(str(folder), "write in"):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # closed by __exit__

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the file up."""
        with suppress(OSError):  # of what a full disk did not take, nobody wants the rest
            self._file.close()

    def add(self, chunk: ChunkResult) -> None:
        """Append the pages of the next chunk.

        Raises:
            StorageUnavailable: there is no room.
        """
        with storage.storage_errors(str(self._folder), "write in"):
            position = self._file.seek(0, os.SEEK_END)
            self._file.writelines(page.model_dump_json().encode() + b"\n" for page in chunk.pages)
            self._file.flush()
        self._chunks.append(_Chunk(position, len(chunk.pages), chunk.state))
        self.statuses += [(page.page_number, page.status) for page in chunk.pages]

    def chunk(self, index: int) -> ChunkResult:
        """Return the chunk that was added as number ``index``, from 0."""
        found = self._chunks[index]
        self._file.seek(found.position)
        pages = tuple(PageResult.model_validate_json(self._file.readline()) for _ in range(found.pages))
        return ChunkResult(pages=pages, state=found.state)

    def chunks(self) -> Iterator[ChunkResult]:
        """Yield every chunk as it was added, one in memory at a time."""
        return map(self.chunk, range(len(self._chunks)))

    def pages(self) -> Iterator[PageResult]:
        """Yield every page, one chunk in memory at a time."""
        return (page for chunk in self.chunks() for page in chunk.pages)
