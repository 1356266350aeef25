"""Readings that replace those of a document's chunks: one small file a page, beside the checkpoints.

Checkpoints stay as they were; whoever publishes takes the chunks' pages with these in their place. So a backfill
survives every later run of the same document with the same configuration, and is gone with ``--fresh``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from data_contracts.config import ReadingConfig
from data_contracts.document import DocumentRef
from data_contracts.patch import PagePatch, memory_sha256
from data_contracts.result import ChunkResult, PageResult, PageStatus
from tasks import storage

PATCHES_FOLDER = "patches"
READ_FROM_MEMORY = (PageStatus.TEXT, PageStatus.TRUNCATED)
"""Pages on whose reading memory had a bearing."""


@dataclass(frozen=True)
class _Facts:
    """What is asked of a patch beside its reading."""

    memory_key: str | None
    """Of one that later pages find in memory."""
    memory_sha256: str | None
    manifest_entry: dict[str, Any] | None
    """Of one that was asked for."""


class PatchStore:
    """The patches of one document under one reading configuration. Holds facts about pages, never readings."""

    def __init__(self, root: str, document: DocumentRef, reading: ReadingConfig, *, fresh: bool = False) -> None:
        """Look into the folder of the patches below ``root``; ``fresh`` forgets those that are there."""
        self._reading = reading
        self._folder = storage.join(root, PATCHES_FOLDER, f"{document.document_id}-{reading.sha256[:16]}")
        self.page_numbers = self._stored()
        self._known: dict[int, _Facts] = {}
        self._remembered: dict[int, str] | None = None
        if fresh:
            self._clear()

    def read(self, page_number: int) -> PagePatch:
        """Return the patch of one page."""
        patch = PagePatch.model_validate_json(storage.read_bytes(self._place(page_number)))
        self._known[page_number] = _facts(patch)
        return patch

    def write(self, patch: PagePatch) -> None:
        """Store ``patch`` in place of an earlier one of the same page.

        Raises:
            StorageUnavailable: there is no room or no answer.
        """
        storage.write_bytes(self._place(patch.page.page_number), patch.model_dump_json().encode())
        self.page_numbers = tuple(sorted({*self.page_numbers, patch.page.page_number}))
        self._known[patch.page.page_number] = _facts(patch)
        self._remembered = None

    def _clear(self) -> None:
        """Forget all patches."""
        for page_number in self.page_numbers:
            storage.delete(self._place(page_number))
        self.page_numbers, self._known, self._remembered = (), {}, None

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
            keys = {number: self._facts_of(number).memory_key for number in self.page_numbers}
            self._remembered = {number: key for number, key in keys.items() if key is not None}
        return self._remembered

    def read_alone(self) -> set[int]:
        """Return the pages whose patches were read without the document's memory."""
        return {n for n in self.page_numbers if self._facts_of(n).memory_sha256 is None}

    def memory_before(self, page_number: int, since: int = 1) -> str:
        """Return the digest of the patches that a page has to find in memory, of those of pages from ``since`` on."""
        last = page_number + self._reading.sr_swa.lookahead_pages
        keys = (key for n, key in self.remembered().items() if since <= n <= last and n != page_number)
        return memory_sha256(keys)

    def _is_stale(self, page: PageResult) -> bool:
        if page.status not in READ_FROM_MEMORY:
            return False
        read_in = self._facts_of(page.page_number).memory_sha256 if page.page_number in self.page_numbers else ""
        return read_in is not None and read_in != self.memory_before(page.page_number)

    def _facts_of(self, page_number: int) -> _Facts:
        if page_number not in self._known:
            self.read(page_number)
        return self._known[page_number]

    def _stored(self) -> tuple[int, ...]:
        try:
            return tuple(sorted(int(name.removesuffix(".json")) for name in storage.file_names(self._folder)))
        except FileNotFoundError:
            return ()

    def _place(self, page_number: int) -> str:
        return storage.join(self._folder, f"{page_number:06d}.json")

    def manifest_fields(self, stale_pages: Sequence[int]) -> dict[str, Any]:
        """Return what the manifest says of the patches and of the pages that they made stale; nothing without any."""
        if not self.page_numbers:
            return {}
        entries = (self._facts_of(number).manifest_entry for number in self.page_numbers)
        return {
            "backfilled_pages": [entry for entry in entries if entry is not None],
            "stale_context_pages": list(stale_pages),
        }


def _facts(patch: PagePatch) -> _Facts:
    entry = {
        "page_number": patch.page.page_number,
        "replaced_status": patch.replaced_status.value,
        "status": patch.page.status.value,
        "config_sha256": patch.reading.sha256,
        "config": patch.reading.model_dump(mode="json"),
    }
    return _Facts(
        memory_key=patch.memory_key if patch.is_remembered else None,
        memory_sha256=patch.memory_sha256,
        manifest_entry=entry if patch.named else None,
    )
