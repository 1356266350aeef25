"""What is stored of a reading is fetched once a run, and the warehouse exported once, however many documents it has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.counted_run import counted
from support.sources import drawn_pdf

from data_contracts.warehouse.connection import TABLES, open_export

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

CONFIG = {"chunk_pages": 2, "formats": ["txt", "pdf", "jsonl"], "reading": {"render": {"dpi": 50}}}


def test_each_result_is_fetched_once_by_a_first_run_and_by_one_that_finds_all_done(
    prefect_url: str, tmp_path: Path
) -> None:
    source = drawn_pdf(tmp_path / "book.pdf", [f"page {number}" for number in range(1, 8)])
    out = tmp_path / "out"
    for _ in range(2):
        reads, exports = counted(source, out, tmp_path, prefect_url, **CONFIG)
        results = {path: count for path, count in reads.items() if path.startswith("chunks/")}
        assert len(results) == 4
        assert set(results.values()) == {1}
        assert exports == 1
        (folder,) = [path for path in out.iterdir() if path.name != ".tomeflow"]
        shutil.rmtree(folder)


def test_an_ingestion_exports_once(prefect_url: str, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    for name in ("one", "two", "three"):
        drawn_pdf(archive / f"{name}.pdf", [name])
    reads, exports = counted(archive, tmp_path / "out", tmp_path, prefect_url, **CONFIG)
    assert exports == 1
    assert {count for path, count in reads.items() if path.startswith("chunks/")} == {1}
    connection = open_export(tmp_path / "out" / ".tomeflow" / "export")
    assert connection.execute("SELECT status, count(*) FROM archive_objects GROUP BY 1").fetchall() == [
        ("published", 3)
    ]
    connection.close()
    assert {path.stem for path in (tmp_path / "out" / ".tomeflow" / "export").iterdir()} == set(TABLES)
