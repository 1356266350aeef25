"""The readings of a document wait on disk for those who write them: the same, in any order, in little memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from support.failures.full_disk import no_file_larger_than
from support.readings import blank_page, failed_page, text_page

from data_contracts.document import StateRef
from data_contracts.errors import StorageUnavailable
from data_contracts.result import ChunkResult, PageResult, PageStatus
from tasks.readings import Readings


def chunk_of(*pages: PageResult) -> ChunkResult:
    state = StateRef(uri="s", sha256="1" * 64, size_bytes=1, next_page_number=pages[-1].page_number + 1)
    return ChunkResult(pages=pages, state=state)


CHUNKS = [
    chunk_of(text_page(["one", "Zürich\u2028"], 1), blank_page(2)),
    chunk_of(failed_page(4)),
    chunk_of(text_page(["five"], 5)),
]


def test_what_is_added_comes_back_as_often_as_it_is_asked_for(tmp_path: Path) -> None:
    with Readings(tmp_path / "work") as readings:
        for chunk in CHUNKS:
            readings.add(chunk)
        assert list(readings.chunks()) == CHUNKS
        assert readings.chunk(1) == CHUNKS[1]
        pages = [page for chunk in CHUNKS for page in chunk.pages]
        assert list(zip(readings.pages(), readings.pages(), strict=True)) == list(zip(pages, pages, strict=True))
        kinds = [PageStatus.TEXT, PageStatus.BLANK, PageStatus.FAILED, PageStatus.TEXT]
        assert readings.statuses == list(zip([1, 2, 4, 5], kinds, strict=True))
        assert list((tmp_path / "work").iterdir()) == [], "a file without a name is gone with its holder"


def test_a_full_disk_is_told_as_what_it_is(tmp_path: Path) -> None:
    long_chunk = chunk_of(*(text_page([f"line {row} of many" for row in range(40)], n) for n in range(1, 20)))
    with Readings(tmp_path) as readings, no_file_larger_than(10_000), pytest.raises(StorageUnavailable, match="free"):
        readings.add(long_chunk)


def test_memory_does_not_grow_with_the_pages(tmp_path: Path) -> None:
    lines = [f"line {row} of a page with many words" for row in range(30)]
    page_bytes = len(text_page(lines, 1).model_dump_json())
    pages = 400
    with Readings(tmp_path) as readings:
        tracemalloc.start()
        for number in range(1, pages + 1):
            readings.add(chunk_of(text_page(lines, number)))
        assert sum(1 for _ in readings.pages()) == pages
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < pages * page_bytes / 10
