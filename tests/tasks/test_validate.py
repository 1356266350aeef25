"""The gate: failing pages are quarantined with reasons, a failing document is not published, a person may overrule."""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.readings import blank_page, text_page

from data_contracts.config import DigitizeConfig, QualityConfig, ReadingConfig
from data_contracts.document import DocumentRef, StateRef
from data_contracts.errors import ConfigError, ContractViolated, StorageUnavailable
from data_contracts.quality.verdict import Release, Verdict
from data_contracts.result import ChunkResult, GateStatus, PageResult
from data_contracts.warehouse.connection import EXPORT_FOLDER, WAREHOUSE_FILE, export_warehouse, open_warehouse
from flows.commands.query import main as query_main
from flows.commands.query import run_query
from flows.evaluate import KINDS
from tasks.collect import collect_accuracy, collect_document
from tasks.document_run import DocumentRun, RunRecord
from tasks.validate import (
    Evidence,
    publish_root,
    quarantine_folder,
    record_releases,
    require_publishable,
    validate_document,
    validate_published,
    verdict_path,
)

STATE = StateRef(uri="states/x", sha256="1" * 64, size_bytes=1, next_page_number=4)
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def prose(number: int) -> PageResult:
    lines = [" ".join(f"word{number * 1009 + row * 31 + column}x" for column in range(8)) for row in range(12)]
    return text_page([str(number), *lines], number)


def book(pages: int = 40, blanked: Sequence[int] = ()) -> list[PageResult]:
    return [blank_page(number) if number in blanked else prose(number) for number in range(1, pages + 1)]


def document_named(name: str, pages: int) -> DocumentRef:
    return DocumentRef(
        document_id=f"{name}-000000000000", uri="x.pdf", sha256=name.ljust(64, "0"), page_count=pages, kind="pdf"
    )


def collect_only(output: Path, name: str, pages: list[PageResult]) -> RunRecord:
    run = RunRecord(
        run_id=f"run-{name}",
        model_fingerprint="fake",
        started_at=STARTED,
        seconds=1,
        selected_pages=len(pages),
        peak_memory_bytes=1,
    )
    chunk = ChunkResult(pages=tuple(pages), state=STATE)
    warehouse, document = output / ".tomeflow" / "warehouse.duckdb", document_named(name, len(pages))
    collect_document(warehouse, document, ReadingConfig(), run, [(chunk, ())])
    return run


def validate(output: Path, pages: list[PageResult], name: str = "book", ratio: float = 0.05) -> Verdict:
    record, work = collect_only(output, name, pages), output / ".tomeflow"
    document, config = (
        document_named(name, len(pages)),
        DigitizeConfig(quality=QualityConfig(max_quarantined_ratio=ratio)),
    )
    selected = tuple(page.page_number for page in pages)
    run = DocumentRun(document, Path(document.uri), config, selected, str(output), work, record)
    evidence = Evidence(config.quality)
    for page in pages:
        evidence.add(page)
    verdict = validate_document(run, evidence, ())
    export_warehouse(run.warehouse, work / EXPORT_FOLDER)
    return verdict


def test_a_clean_document_passes_and_its_rows_are_exported(tmp_path: Path) -> None:
    verdict = validate(tmp_path, book())
    assert (verdict.is_publishable, verdict.quarantined, verdict.warnings) == (True, (), ())
    require_publishable(tmp_path / ".tomeflow", verdict)
    assert publish_root("out", tmp_path / ".tomeflow", verdict) == "out"
    columns, rows = run_query(tmp_path, "SELECT count(*) AS n, max(printed_number) AS last FROM measured_pages")
    assert (columns, rows) == (["n", "last"], [(40, 40)])
    assert (
        Verdict.model_validate_json(verdict_path(tmp_path / ".tomeflow", verdict.document_id).read_bytes()) == verdict
    )


def test_a_few_failing_pages_are_quarantined_and_the_document_goes_on(tmp_path: Path) -> None:
    verdict = validate(tmp_path, book(blanked=[7]))
    assert verdict.is_publishable
    assert verdict.gate_statuses()[7] is GateStatus.QUARANTINED
    assert "printed page 7 belongs there" in verdict.quarantined[0].reasons[0]
    assert run_query(tmp_path, "SELECT page_number FROM page_measures WHERE gate_status = 'quarantined'")[1] == [(7,)]
    assert run_query(tmp_path, "SELECT expectation, failing_pages FROM evaluations WHERE NOT success")[1] == [
        ("no blank page in place of a printed one", 1)
    ]


def test_too_many_failing_pages_stop_the_document_with_every_reason(tmp_path: Path) -> None:
    work = tmp_path / ".tomeflow"
    verdict = validate(tmp_path, book(blanked=[7, 20, 30]))
    assert publish_root("out", work, verdict) == str(work / "quarantine")
    with pytest.raises(
        ContractViolated, match=r"3 of 40 pages are quarantined.*page 7: .*page 20: .*page 30: "
    ) as raised:
        require_publishable(work, verdict)
    assert raised.value.exit_code == 40
    kept = json.loads((quarantine_folder(work, verdict.document_id) / "verdict.json").read_text())
    assert [page["page_number"] for page in kept["failing_pages"]] == [7, 20, 30]


def test_one_doubtful_page_alone_stops_no_document_however_short(tmp_path: Path) -> None:
    verdict = validate(tmp_path, [prose(1), prose(2), prose(3).model_copy(update={"lines": prose(1).lines})])
    assert [page.page_number for page in verdict.quarantined] == [3]
    assert verdict.is_publishable
    assert "page 3: " in verdict.summary


def test_a_measured_error_rate_is_judged_in_the_next_run(tmp_path: Path) -> None:
    pages = book(6)
    validate(tmp_path, pages)
    row = {
        "document_sha256": document_named("book", 6).sha256,
        "config_sha256": ReadingConfig().sha256,
        "model_fingerprint": "fake",
        "page_number": 4,
        "source": "files",
        "is_estimate": False,
        "characters": 100,
        "character_errors": 30,
        "words": 20,
        "word_errors": 9,
        "cer": 0.3,
        "wer": 0.45,
        "bag_recall": 0.6,
        "measured_at": STARTED,
        **dict.fromkeys(KINDS, 0),
    }
    estimate = {**row, "page_number": 5, "source": "second-reader", "is_estimate": True}
    collect_accuracy(tmp_path / ".tomeflow", [row, estimate])
    (warning,) = validate(tmp_path, pages).warnings
    assert (warning.expectation, [page.page_number for page in warning.pages]) == (
        "few errors where the truth is known",
        [4],
    )


def test_files_that_are_not_what_was_written_are_named_and_recorded(tmp_path: Path) -> None:
    work, folder = tmp_path / ".tomeflow", tmp_path / "shelf"
    folder.mkdir()
    (folder / "document.txt").write_bytes(b"text")
    digests = {"document.txt": hashlib.sha256(b"text").hexdigest()}
    whole = validate_published(work, validate(tmp_path, book(6)), str(folder), digests)
    export_warehouse(work / WAREHOUSE_FILE, work / EXPORT_FOLDER)
    assert whole.is_publishable
    sql = "SELECT success, detail FROM evaluations WHERE expectation = 'every file is whole'"
    assert run_query(tmp_path, sql)[1] == [(True, "")]
    with pytest.raises(ContractViolated, match=r"document.txt, pages.jsonl in .* are missing or not what was written"):
        validate_published(work, whole, str(folder), {"document.txt": "0" * 64, "pages.jsonl": "1" * 64})
    export_warehouse(work / WAREHOUSE_FILE, work / EXPORT_FOLDER)
    assert run_query(tmp_path, sql)[1] == [(False, "document.txt, pages.jsonl")]


def test_a_document_that_passes_again_leaves_the_quarantine(tmp_path: Path) -> None:
    failing = validate(tmp_path, book(blanked=[7, 20, 30]))
    with pytest.raises(ContractViolated):
        require_publishable(tmp_path / ".tomeflow", failing)
    validate(tmp_path, book())
    assert not quarantine_folder(tmp_path / ".tomeflow", failing.document_id).exists()
    assert run_query(tmp_path, "SELECT publishable, quarantined_pages FROM verdicts")[1] == [(True, 0)]


def test_a_release_is_remembered_with_name_and_time_and_counts_in_the_next_run(tmp_path: Path) -> None:
    pages = book(blanked=[7, 20, 30])
    verdict = validate(tmp_path, pages)
    release = Release(page_number=20, why="blank in print", released_by="Ada", released_at=STARTED)
    released = record_releases(tmp_path / ".tomeflow", verdict, [release])
    assert released.gate_statuses()[20] is GateStatus.RELEASED
    assert released.is_publishable
    again = validate(tmp_path, pages)
    assert again.releases == (release,)
    assert [page.page_number for page in again.quarantined] == [7, 30]
    assert run_query(tmp_path, "SELECT page_number, why, released_by FROM releases")[1] == [
        (20, "blank in print", "Ada")
    ]


def test_a_wrong_statement_and_a_missing_or_damaged_export_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to ask"):
        run_query(tmp_path, "SELECT 1")
    validate(tmp_path, book(6))
    for change in ("SELECT 1; DELETE FROM pages", "DROP TABLE pages", "ALTER TABLE pages ADD COLUMN note VARCHAR"):
        with pytest.raises(ConfigError, match="only asks"):
            run_query(tmp_path, change)
    for nothing in ("", " -- to be written", ";"):
        with pytest.raises(ConfigError, match="no statement"):
            run_query(tmp_path, nothing)
    assert run_query(tmp_path, "PIVOT (SELECT status FROM pages) ON status USING count(*)")[0] == ["text"]
    with pytest.raises(ConfigError, match=r"Tables and views: .*hit_ratio"):
        run_query(tmp_path, "SELECT nothing FROM nowhere")
    with pytest.raises(ConfigError):
        run_query(tmp_path, f"COPY pages TO '{tmp_path}/stolen.csv'")
    assert not (tmp_path / "stolen.csv").exists()
    (tmp_path / ".tomeflow" / "export" / "pages.parquet").unlink()
    with pytest.raises(StorageUnavailable, match="every run exports again"):
        run_query(tmp_path, "SELECT 1")


@pytest.mark.parametrize("view", ["hit_ratio", "peak_memory", "latency_drift", "error_rate", "accuracy"])
def test_the_ready_views_answer(tmp_path: Path, view: str, capsys: pytest.CaptureFixture[str]) -> None:
    validate(tmp_path, book(6))
    options = argparse.Namespace(
        output=str(tmp_path), sql=f"SELECT * FROM {view}", form="json", export=None, seconds=60.0
    )
    assert query_main(options) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["document_id"] for row in rows] == (
        [] if view in ("latency_drift", "accuracy") else ["book-000000000000"]
    )


def writer(output: Path, name: str, repeat: int) -> subprocess.Popen[str]:
    """Start a process that collects a document of 40 pages again and again."""
    here = Path(__file__).resolve()
    code = (
        f"import sys; sys.path[:0] = [{str(here.parent)!r}, {str(here.parents[1])!r}, {str(here.parents[2])!r}]\n"
        "from pathlib import Path\n"
        "from test_validate import collect_only, book\n"
        f"for turn in range({repeat}):\n"
        f"    collect_only(Path({str(output)!r}), {name!r}, book())\n"
        "    print(turn, flush=True)\n"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.e2e
def test_two_runs_that_finish_at_once_queue_and_lose_nothing(tmp_path: Path) -> None:
    writers = [writer(tmp_path, name, repeat=3) for name in ("first", "second")]
    assert [process.wait(timeout=300) for process in writers] == [0, 0]
    for process in writers:
        assert process.stdout is not None
        process.stdout.close()
    with open_warehouse(tmp_path / ".tomeflow" / "warehouse.duckdb") as connection:
        counts = connection.execute("SELECT run_id, count(*) FROM pages GROUP BY 1 ORDER BY 1").fetchall()
    assert counts == [("run-first", 40), ("run-second", 40)]


@pytest.mark.e2e
@pytest.mark.parametrize("delay_ms", [0, 3, 10, 30])
def test_a_writer_killed_at_any_moment_leaves_whole_documents(tmp_path: Path, delay_ms: int) -> None:
    with writer(tmp_path, "killed", repeat=1000) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        time.sleep(delay_ms / 1000)
        process.kill()
    with open_warehouse(tmp_path / ".tomeflow" / "warehouse.duckdb") as connection:
        assert connection.execute("SELECT count(*) FROM pages").fetchone() == (40,)
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def truth_book(folder: Path) -> list[list[str]]:
    files = sorted(folder.glob("page_*.gt.txt"))
    return [[line for line in f.read_text(encoding="utf-8").splitlines() if line.strip()] or ["-"] for f in files]


def as_pages(lines: Sequence[Sequence[str] | None]) -> list[PageResult]:
    return [text_page(page, n) if page else blank_page(n) for n, page in enumerate(lines, start=1)]


@pytest.mark.shared_data
def test_every_intact_shared_book_passes(tmp_path: Path, shared_data: Path) -> None:
    failing = {}
    for folder in sorted((shared_data / "books").glob("*/")):
        verdict = validate(tmp_path, as_pages(truth_book(folder)), folder.name)
        if verdict.failing_pages or not verdict.is_publishable:
            failing[folder.name] = verdict.summary
    assert failing == {}


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("fault", "expectation", "accused"),
    [
        ("blanked", "no blank page in place of a printed one", {3}),
        ("doubled", "printed numbers are unique", {4}),
        ("doubled", "no page reads like another", {4}),
        ("swapped", "printed numbers ascend", {3, 4}),
    ],
)
def test_a_fault_in_a_real_book_stops_it_and_is_named(
    tmp_path: Path, shared_data: Path, fault: str, expectation: str, accused: set[int]
) -> None:
    lines: list[list[str] | None] = [*truth_book(shared_data / "books" / "fr_kovalewsky_1893")]
    changed = {
        "blanked": [*lines[:2], None, *lines[3:]],
        "doubled": [*lines[:3], *lines[2:]],
        "swapped": [*lines[:2], lines[3], lines[2], *lines[4:]],
    }[fault]
    verdict = validate(tmp_path, as_pages(changed))
    named = [e for e in verdict.evaluations if e.expectation == expectation]
    assert {page.page_number for page in named[0].pages} <= accused
    assert named[0].pages
    assert expectation in verdict.summary
