"""The warehouse holds each page once, whatever is run how often."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from data_contracts.config import ReadingConfig, SrSwaConfig
from data_contracts.document import DocumentRef, StateRef
from data_contracts.errors import StorageUnavailable
from data_contracts.geometry import Box
from data_contracts.result import ChunkResult, Event, Line, PageMetrics, PageResult, PageStatus, PageTimings
from data_contracts.warehouse.connection import EXPORT_FOLDER, export_warehouse, open_warehouse
from tasks.collect import collect_document
from tasks.document_run import RunRecord

DOCUMENT = DocumentRef(document_id="book-000000000000", uri="book.pdf", sha256="0" * 64, page_count=3, kind="pdf")
STATE = StateRef(uri="states/x", sha256="1" * 64, size_bytes=1, next_page_number=4)


def page(number: int, text: str = "abc", events: int = 0) -> PageResult:
    box = Box(left=0, top=0, right=10, bottom=10)
    line = Line(text=text, box=box, quad=((0, 0), (10, 0), (10, 10), (0, 10)), confidence=0.5, words=())
    return PageResult(
        page_number=number,
        width_px=100,
        height_px=200,
        dpi=300,
        status=PageStatus.TEXT,
        lines=(line,),
        metrics=PageMetrics(references_fetched=4, references_hit=1),
        events=tuple(Event(kind="window_shrunk", page_number=number, detail=str(n)) for n in range(events)),
    )


def collect(path: Path, run_id: str, pages: tuple[PageResult, ...], reading: ReadingConfig | None = None) -> None:
    run = RunRecord(
        run_id=run_id,
        model_fingerprint="fake",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1.0,
        selected_pages=len(pages),
        peak_memory_bytes=1,
    )
    timings = tuple(PageTimings(page_number=p.page_number, decode_ms=2.0) for p in pages)
    chunk = ChunkResult(pages=pages, state=STATE)
    collect_document(path, DOCUMENT, reading or ReadingConfig(), run, [(chunk, timings)])


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    with open_warehouse(path) as connection:
        return connection.execute(sql).fetchall()


def test_collecting_twice_is_collecting_once(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse.duckdb"
    collect(warehouse, "first", (page(1, events=3), page(2)))
    collect(warehouse, "second", (page(1, "abcd", events=1), page(2)))
    assert query(warehouse, "SELECT page_number, characters, run_id, hit_ratio FROM pages ORDER BY 1") == [
        (1, 4, "second", 0.25),
        (2, 3, "second", 0.25),
    ]
    assert query(warehouse, "SELECT count(*) FROM events") == [(1,)]
    assert query(warehouse, "SELECT count(*) FROM runs") == [(2,)]


def test_another_configuration_has_rows_of_its_own(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse.duckdb"
    collect(warehouse, "a", (page(1),))
    collect(warehouse, "b", (page(1),), ReadingConfig(sr_swa=SrSwaConfig(window_pages=4)))
    assert query(warehouse, "SELECT count(*) FROM pages") == [(2,)]


def test_a_failing_collect_leaves_nothing_half_written(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse.duckdb"
    collect(warehouse, "a", (page(1),))

    def delete_and_fail() -> None:
        with open_warehouse(warehouse) as connection:
            connection.execute("DELETE FROM pages")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        delete_and_fail()
    assert query(warehouse, "SELECT count(*) FROM pages") == [(1,)]


def test_a_warehouse_held_by_another_process_is_waited_for_then_named(tmp_path: Path) -> None:
    warehouse = tmp_path / "no corrupt database file" / "warehouse.duckdb"
    collect(warehouse, "a", (page(1),))
    code = f"import duckdb, sys; c = duckdb.connect({str(warehouse)!r}); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StorageUnavailable, match="another run"), open_warehouse(warehouse, lock_timeout_s=0.5):
            pass
        holder.stdin.close()
        with open_warehouse(warehouse, lock_timeout_s=30):
            pass
    assert not set_aside(warehouse)


def test_chunks_are_rows_and_go_when_a_document_is_cut_otherwise(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse.duckdb"
    run = RunRecord(
        run_id="a",
        model_fingerprint="fake",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1.0,
        selected_pages=3,
        peak_memory_bytes=1,
    )
    single = [(ChunkResult(pages=(page(n),), state=STATE), ()) for n in (1, 2, 3)]
    collect_document(warehouse, DOCUMENT, ReadingConfig(), run, single)
    rows = query(warehouse, "SELECT chunk_number, first_page, last_page, pages, decode_ms FROM chunks ORDER BY 1")
    assert rows == [(1, 1, 1, 1, None), (2, 2, 2, 1, None), (3, 3, 3, 1, None)]
    collect(warehouse, "b", (page(1), page(2), page(3)))
    assert query(warehouse, "SELECT chunk_number, last_page, decode_ms, run_id FROM chunks") == [(1, 3, 6.0, "b")]


def exported(folder: Path, pages: int = 2) -> Path:
    """Return a warehouse that has been exported beside itself."""
    warehouse = folder / "warehouse.duckdb"
    collect(warehouse, "a", tuple(page(n, events=1) for n in range(1, pages + 1)))
    export_warehouse(warehouse, folder / EXPORT_FOLDER)
    return warehouse


def set_aside(warehouse: Path) -> list[Path]:
    return sorted(warehouse.parent.glob(f"{warehouse.name}.damaged-*"))


@pytest.mark.parametrize("damaged", [b"", b"no database " * 3000, None])
def test_a_damaged_or_missing_warehouse_is_made_anew_from_its_export(
    tmp_path: Path, damaged: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = exported(tmp_path)
    log = tmp_path / "warehouse.duckdb.wal"
    if damaged is None:
        warehouse.unlink()
    else:
        warehouse.write_bytes(damaged)
        log.write_bytes(b"its log")
    assert query(warehouse, "SELECT run_id, count(*) FROM pages GROUP BY 1") == [("a", 2)]
    assert query(warehouse, "SELECT config->>'$.chunk_pages' IS NULL, year(started_at) FROM runs") == [(True, 2026)]
    assert "rebuilt" in caplog.text
    kept = [file.read_bytes() for file in set_aside(warehouse)]
    assert kept == ([] if damaged is None else [damaged, b"its log"])
    assert not log.exists()
    collect(warehouse, "b", (page(1), page(2), page(3)))
    assert query(warehouse, "SELECT count(*) FROM pages") == [(3,)]
    assert len(set_aside(warehouse)) == len(kept)


def test_a_warehouse_cut_off_fails_one_run_at_most(tmp_path: Path) -> None:
    warehouse = exported(tmp_path)
    size = warehouse.stat().st_size
    for kept_bytes in (5000, size // 2, size - 4096):
        with warehouse.open("r+b") as file:
            file.truncate(kept_bytes)
        try:
            collect(warehouse, "b", (page(1), page(2)))
        except StorageUnavailable as error:
            assert "run this again" in str(error)  # noqa: PT017 - DuckDB may or may not need the bytes that are gone
            collect(warehouse, "b", (page(1), page(2)))
        assert query(warehouse, "SELECT run_id, count(*) FROM pages GROUP BY 1") == [("b", 2)]
        export_warehouse(warehouse, tmp_path / EXPORT_FOLDER)
    assert set_aside(warehouse)


def test_damage_found_while_writing_is_mended_and_said(tmp_path: Path) -> None:
    warehouse = exported(tmp_path)
    with duckdb.connect(str(warehouse)) as connection:
        connection.execute("INSERT INTO events SELECT 'x', 'y', i, 1, 'kind', md5(i::VARCHAR) FROM range(50000) t(i)")
    content = bytearray(warehouse.read_bytes())
    middle = 12288 + 262144  # three headers, then blocks of 256 KiB: all but the last few hold rows
    for place in range(middle, len(content), 4096):
        content[place : place + 8] = b"garbage!"
    warehouse.write_bytes(content)

    def read_all() -> list[tuple[object, ...]]:
        return query(warehouse, "SELECT max(detail), count(*) FROM events")

    try:
        rows = read_all()
    except StorageUnavailable as error:
        assert "run this again" in str(error)  # noqa: PT017 - where the damage shows is DuckDB's affair
        rows = read_all()
    assert rows == [("0", 2)]
    assert [file.read_bytes() for file in set_aside(warehouse)] == [bytes(content)]


def test_a_damaged_log_is_set_aside_with_its_warehouse(tmp_path: Path) -> None:
    warehouse = exported(tmp_path)
    code = (
        f"import duckdb, os; c = duckdb.connect({str(warehouse)!r}); c.execute('DELETE FROM pages'); "
        "c.execute('CREATE TABLE more AS FROM range(1000)'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    log = tmp_path / "warehouse.duckdb.wal"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 255
    log.write_bytes(content)
    assert query(warehouse, "SELECT count(*) FROM pages") == [(2,)]
    assert [file.suffix for file in set_aside(warehouse)][1:] == [".wal"]


@pytest.mark.parametrize("missing", [True, False])
def test_nothing_is_replaced_when_the_export_is_damaged_too(tmp_path: Path, missing: bool) -> None:
    warehouse = exported(tmp_path)
    if missing:
        warehouse.unlink()
    else:
        warehouse.write_bytes(b"")
    (tmp_path / EXPORT_FOLDER / "pages.parquet").write_bytes(b"cut")
    before = {file: file.read_bytes() for file in (tmp_path / EXPORT_FOLDER).iterdir()}
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match=r"warehouse\.duckdb .*export .*move both away"):
            export_warehouse(warehouse, tmp_path / EXPORT_FOLDER)
    assert {file: file.read_bytes() for file in (tmp_path / EXPORT_FOLDER).iterdir()} == before
    assert warehouse.exists() is not missing
    assert not set_aside(warehouse)


def test_a_damaged_warehouse_without_an_export_is_kept_and_begun_anew(tmp_path: Path) -> None:
    warehouse = exported(tmp_path)
    shutil.rmtree(tmp_path / EXPORT_FOLDER)
    warehouse.write_bytes(b"")
    assert query(warehouse, "SELECT count(*) FROM pages") == [(0,)]
    assert len(set_aside(warehouse)) == 1


SHORT_OF_MEMORY = """
import resource, sys
from pathlib import Path
import duckdb
from data_contracts.out_of_memory import is_out_of_memory
from data_contracts.warehouse.connection import open_warehouse
for extra_bytes in (1_000_000, 4_000_000, 8_000_000):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra_bytes, resource.RLIM_INFINITY))
    try:
        with open_warehouse(Path(sys.argv[1]) / f"{extra_bytes}.duckdb"):
            pass
    except Exception as error:
        print(type(error).__name__, is_out_of_memory(error), "another" in str(error).lower(), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="not applicable: Linux alone bounds a process's addresses so")
def test_memory_that_runs_out_is_not_taken_for_another_run(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHORT_OF_MEMORY, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    assert told[0] == "OutOfMemory True False"
    assert all(line.endswith("True False") for line in told), told
