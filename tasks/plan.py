"""Which pages are read, and in what portions. Pure: no file, no clock."""

from __future__ import annotations

from collections.abc import Sequence

from data_contracts.document import ChunkRef
from data_contracts.page_ranges import parse_pages

__all__ = ["parse_pages", "plan_chunks"]


def plan_chunks(selected: Sequence[int], chunk_pages: int) -> tuple[ChunkRef, ...]:
    """Return chunks of ``chunk_pages`` pages, the last maybe shorter: each selected page once, in order.

    Raises:
        ValueError: ``chunk_pages`` is below 1.
    """
    if chunk_pages < 1:
        raise ValueError(f"chunk_pages is {chunk_pages}; a chunk has at least one page")
    starts = range(0, len(selected), chunk_pages)
    return tuple(
        ChunkRef(chunk_number=number, page_numbers=tuple(selected[start : start + chunk_pages]))
        for number, start in enumerate(starts, start=1)
    )
