"""Readings that replace those of a document's chunks: one small file a page, beside the checkpoints.

Checkpoints stay as they were; whoever publishes takes the chunks' pages with these in their place. So a backfill
survives every later run of the same document with the same configuration, and is gone with ``--fresh``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from data_contracts.config import ReadingConfig
from data_contracts.document import DocumentRef
from data_contracts.patch import PagePatch, memory_sha256
from data_contracts.result import ChunkResult, PageResult, PageStatus
from tasks import storage

PATCHES_FOLDER = "patches"
READ_FROM_MEMORY = (PageStatus.TEXT, PageStatus.TRUNCATED)
"""Pages on whose reading memory had a bearing."""


class PatchStore:
    """The patches of one document under one reading configuration. Holds page numbers, never readings."""

    def __init__(self, root: str, document: DocumentRef, reading: ReadingConfig, *, fresh: bool = False) -> None:
        """Look into the folder of the patches below ``root``; ``fresh`` forgets those that are there."""
        self._reading = reading
        self._folder = storage.join(root, PATCHES_FOLDER, f"{document.document_id}-{reading.sha256[:16]}")
        self.page_numbers = self._stored()
        self._remembered: dict[int, str] | None = None
        if fresh:
            self._clear()

    def read(self, page_number: int) -> PagePatch:
        """Return the patch of one page."""
        return PagePatch.model_validate_json(storage.read_bytes(self._place(page_number)))

    def write(self, patch: PagePatch) -> None:
        """Store ``patch`` in place of an earlier one of the same page.

        Raises:
            StorageUnavailable: there is no room or no answer.
        """
        storage.write_bytes(self._place(patch.page.page_number), patch.model_dump_json().encode())
        self.page_numbers = tuple(sorted({*self.page_numbers, patch.page.page_number}))
        self._remembered = None

    def _clear(self) -> None:
        """Forget all patches."""
        for page_number in self.page_numbers:
            storage.delete(self._place(page_number))
        self.page_numbers, self._remembered = (), None

    def apply(self, chunk: ChunkResult) -> ChunkResult:
        """Return ``chunk`` with the patched pages in place of its own."""
        patched = set(self.page_numbers)
        pages = tuple(self.read(p.page_number).page if p.page_number in patched else p for p in chunk.pages)
        return chunk.model_copy(update={"pages": pages})

    def mark_stale(self, chunk: ChunkResult) -> ChunkResult:
        """Return ``chunk`` with the pages marked whose context a patch has changed since they were read."""
        marked = (p.model_copy(update={"stale_context": True}) if self._is_stale(p) else p for p in chunk.pages)
        return chunk.model_copy(update={"pages": tuple(marked)}) if self.page_numbers else chunk

    def stale_pages(self, chunks: Iterable[ChunkResult]) -> list[int]:
        """Return the numbers of the pages that ``mark_stale`` marks."""
        if not self.page_numbers:
            return []
        return [page.page_number for chunk in chunks for page in self.mark_stale(chunk).pages if page.stale_context]

    def remembered(self) -> dict[int, str]:
        """Return the pages whose patches belong into the memory of later pages, with their memory keys."""
        if self._remembered is None:
            patches = map(self.read, self.page_numbers)
            self._remembered = {patch.page.page_number: patch.memory_key for patch in patches if patch.is_remembered}
        return self._remembered

    def read_alone(self) -> set[int]:
        """Return the pages whose patches were read without the document's memory."""
        return {n for n in self.page_numbers if self.read(n).memory_sha256 is None}

    def memory_before(self, page_number: int, since: int = 1) -> str:
        """Return the digest of the patches that a page has to find in memory, of those of pages from ``since`` on."""
        last = page_number + self._reading.sr_swa.lookahead_pages
        keys = (key for n, key in self.remembered().items() if since <= n <= last and n != page_number)
        return memory_sha256(keys)

    def _is_stale(self, page: PageResult) -> bool:
        if page.status not in READ_FROM_MEMORY:
            return False
        read_in = self.read(page.page_number).memory_sha256 if page.page_number in self.page_numbers else ""
        return read_in is not None and read_in != self.memory_before(page.page_number)

    def _stored(self) -> tuple[int, ...]:
        try:
            return tuple(sorted(int(name.removesuffix(".json")) for name in storage.file_names(self._folder)))
        except FileNotFoundError:
            return ()

    def _place(self, page_number: int) -> str:
        return storage.join(self._folder, f"{page_number:06d}.json")

    def manifest_fields(self, chunks: Iterable[ChunkResult]) -> dict[str, Any]:
        """Return what the manifest of the patched ``chunks`` says of the patches; nothing if there is none."""
        if not self.page_numbers:
            return {}
        named = [patch for patch in map(self.read, self.page_numbers) if patch.named]
        return {
            "backfilled_pages": [
                {
                    "page_number": patch.page.page_number,
                    "replaced_status": patch.replaced_status.value,
                    "status": patch.page.status.value,
                    "config_sha256": patch.reading.sha256,
                    "config": patch.reading.model_dump(mode="json"),
                }
                for patch in named
            ],
            "stale_context_pages": self.stale_pages(chunks),
        }
