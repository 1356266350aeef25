"""What ``tomeflow status`` says of documents: of all that were ever begun, whoever is writing meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.command import run
from support.published import shelve

from data_contracts.config import ReadingConfig
from data_contracts.document import DocumentRef, StateRef
from data_contracts.errors import ConfigError
from data_contracts.result import BlankReason, ChunkResult, PageResult, PageStatus
from data_contracts.warehouse.archive import ArchiveObject, ArchiveStatus, record_objects
from data_contracts.warehouse.connection import EXPORT_FOLDER, WAREHOUSE_FILE, export_warehouse, open_warehouse
from flows.commands.cli import main
from flows.commands.query import run_query
from flows.commands.status import as_lines, read_statuses
from flows.execution.single_flight import one_run_at_a_time
from tasks.collect import collect_document
from tasks.document_run import RunRecord

STATE = StateRef(uri="states/x", sha256="1" * 64, size_bytes=1, next_page_number=4)


def document(name: str) -> DocumentRef:
    return DocumentRef(document_id=f"{name}-{'0' * 12}", uri=f"{name}.pdf", sha256=name, page_count=3, kind="pdf")


def collected(
    output: Path,
    name: str,
    failed: tuple[int, ...] = (),
    stale: tuple[int, ...] = (),
    numbers: tuple[int, ...] = (1, 2, 3),
) -> str:
    """Write a run of pages, empty or failed, to the warehouse, and publish a manifest."""
    pages = [
        PageResult(
            page_number=number,
            width_px=0,
            height_px=0,
            dpi=0,
            status=PageStatus.FAILED if number in failed else PageStatus.BLANK,
            blank_reason=None if number in failed else BlankReason.EMPTY,
            error="torn" if number in failed else None,
            stale_context=number in stale,
        )
        for number in numbers
    ]
    record = RunRecord(
        run_id=f"run of {name}" if len(numbers) == 3 else f"run of {name} {numbers}",
        model_fingerprint="fake",
        started_at=datetime(2026, 1, 4 - len(numbers), tzinfo=UTC),
        seconds=1.0,
        selected_pages=len(numbers),
        peak_memory_bytes=1,
    )
    chunk = ChunkResult(pages=tuple(pages), state=STATE)
    collect_document(output / ".tomeflow" / WAREHOUSE_FILE, document(name), ReadingConfig(), record, [(chunk, ())])
    return shelve(output / document(name).document_id, pages).name


def test_each_document_says_what_it_has_and_what_to_do_next(tmp_path: Path) -> None:
    collected(tmp_path, "good")
    collected(tmp_path, "torn", failed=(2,))
    collected(tmp_path, "stale", stale=(3,))
    good, stale, torn = read_statuses(str(tmp_path))
    assert (good.statuses, good.next, good.is_running, good.is_published) == ({"blank": 3}, "nothing", False, True)
    assert torn.statuses == {"blank": 2, "failed": 1}
    assert torn.next == f"read 1 pages again: tomeflow backfill --document {torn.document_id} -o {tmp_path}"
    assert stale.stale_pages == 1
    assert stale.next.endswith("--status stale")
    assert [status.last_run for status in (good, stale, torn)] == ["run of good", "run of stale", "run of torn"]


def test_pages_that_the_last_run_did_not_select_are_not_counted(tmp_path: Path) -> None:
    collected(tmp_path, "twice")
    collected(tmp_path, "twice", numbers=(2,))
    (status,) = read_statuses(str(tmp_path))
    assert (status.selected_pages, status.statuses) == (1, {"blank": 1})


def test_one_that_was_published_under_an_earlier_name_of_its_file_stays_whole(tmp_path: Path) -> None:
    collected(tmp_path, "new")
    earlier = document("old").document_id
    shelve(tmp_path / earlier, [])
    manifest = tmp_path / earlier / "manifest.json"
    said = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**said, "selected_pages": [1, 2], "status_counts": {"text": 2, "failed": 0}}))
    with one_run_at_a_time(tmp_path / ".tomeflow" / "locks", earlier):
        pass
    new, old = read_statuses(str(tmp_path))
    assert (new.last_run, old.last_run) == ("run of new", None)
    assert (old.selected_pages, old.statuses, old.is_published) == (2, {"text": 2}, True)
    assert (old.source, old.next) == (f"{earlier}.pdf", "nothing")
    assert "2 (2 text)" in as_lines(old)


def test_a_document_that_is_being_read_runs_and_one_that_was_killed_is_to_be_run_again(tmp_path: Path) -> None:
    name = document("begun").document_id
    with one_run_at_a_time(tmp_path / ".tomeflow" / "locks", name):
        (running,) = read_statuses(str(tmp_path))
    (killed,) = read_statuses(str(tmp_path))
    assert (running.is_running, running.next) == (True, "wait: a run is at it")
    assert (killed.is_running, killed.last_run) == (False, None)
    assert "tomeflow run SOURCE" in killed.next
    with one_run_at_a_time(tmp_path / ".tomeflow" / "locks", "ingest-archive"):
        assert len(read_statuses(str(tmp_path))) == 1, "an ingestion is no document"


def test_status_reads_the_export_while_a_writer_holds_the_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected(tmp_path, "good")
    work = tmp_path / ".tomeflow"
    export_warehouse(work / WAREHOUSE_FILE, work / EXPORT_FOLDER)
    monkeypatch.setattr("flows.commands.status.READ_TIMEOUT_S", 0.0)
    connect = f"import duckdb, sys; connection = duckdb.connect({str(work / WAREHOUSE_FILE)!r})"
    code = f"{connect}; print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"1\n"
        (good,) = read_statuses(str(tmp_path))
        writer.kill()
    assert good.statuses == {"blank": 3}


def test_a_document_that_there_is_not_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are: none"):
        read_statuses(str(tmp_path), "none")
    with open_warehouse(tmp_path / ".tomeflow" / WAREHOUSE_FILE):
        pass
    name = collected(tmp_path, "good")
    with pytest.raises(ConfigError, match=name):
        read_statuses(str(tmp_path), "none")


def test_objects_of_an_archive_that_failed_are_counted_with_the_query_that_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collected(tmp_path, "good")
    seen = {"prefix": "scans", "uri": "scans", "version": "1", "run_id": "run", "changed_at": datetime.now(UTC)}
    objects = [
        ArchiveObject(name="cut.pdf", status=ArchiveStatus.FAILED, reason="it is cut off", **seen),
        ArchiveObject(name="good.pdf", status=ArchiveStatus.PUBLISHED, **seen),
    ]
    warehouse = tmp_path / ".tomeflow" / WAREHOUSE_FILE
    with open_warehouse(warehouse) as connection:
        record_objects(connection, objects)
    export_warehouse(warehouse, tmp_path / ".tomeflow" / EXPORT_FOLDER)
    assert main(["status", "-o", str(tmp_path)]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith("1 objects of archives failed when last ingested: tomeflow query ")
    assert run_query(tmp_path, told.split('"')[1])[1] == [("scans", "cut.pdf", "it is cut off")]


def test_the_command_prints_a_table_one_document_or_json(tmp_path: Path) -> None:
    name = collected(tmp_path, "torn", failed=(2,))
    table = run("status", "-o", tmp_path)
    assert table.returncode == 0, table.stderr
    assert name in table.stdout
    assert "2 blank, 1 failed" in table.stdout
    one = run("status", name, "-o", tmp_path).stdout.splitlines()
    assert [line.split("  ")[0] for line in one] == [
        "document", "now", "source", "pages", "last run", "model", "configuration", "next"
    ]  # fmt: skip
    assert one[3].endswith("3 (2 blank, 1 failed)")
    (status,) = json.loads(run("status", name, "-o", tmp_path, "--json").stdout)["documents"]
    assert status["statuses"] == {"blank": 2, "failed": 1}
