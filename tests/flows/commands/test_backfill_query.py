"""Pages to be read again are found by what is known of them, in the latest run of their document alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from data_contracts.config import ReadingConfig, RenderConfig, changed_reading
from data_contracts.document import DocumentRef, StateRef
from data_contracts.errors import ConfigError
from data_contracts.result import BlankReason, ChunkResult, PageResult, PageStatus
from data_contracts.warehouse.backfill import (
    BackfillAttempt,
    PageQuery,
    count_attempts,
    find_pages,
    record_attempts,
)
from data_contracts.warehouse.connection import open_warehouse
from flows.commands.cli import main
from flows.rereading import changed_fields
from tasks.collect import collect_document
from tasks.document_run import RunRecord

STATE = StateRef(uri="states/x", sha256="1" * 64, size_bytes=1, next_page_number=4)
OLD, NEW = ReadingConfig(render=RenderConfig(dpi=100)), ReadingConfig()


def page(number: int, status: PageStatus, *, stale: bool = False) -> PageResult:
    reason = BlankReason.EMPTY if status is PageStatus.BLANK else None
    error = None if status is PageStatus.BLANK else "torn"
    return PageResult(
        page_number=number,
        width_px=0,
        height_px=0,
        dpi=0,
        status=status,
        blank_reason=reason,
        error=error,
        stale_context=stale,
    )


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Two documents; the first was read twice, with two configurations."""
    path = tmp_path / "warehouse.duckdb"
    stale_page = page(3, PageStatus.BLANK, stale=True)
    readings = [
        ("first", OLD, 1, [page(1, PageStatus.FAILED), page(2, PageStatus.FAILED), page(3, PageStatus.BLANK)]),
        ("first", NEW, 2, [page(1, PageStatus.BLANK), page(2, PageStatus.FAILED), stale_page]),
        ("second", OLD, 3, [page(1, PageStatus.TRUNCATED)]),
    ]
    for name, reading, day, pages in readings:
        document = DocumentRef(document_id=name, uri=name, sha256=name, page_count=3, kind="pdf")
        run = RunRecord(
            run_id=f"{name} {day}",
            model_fingerprint="weights",
            started_at=datetime(2026, 1, day, tzinfo=UTC),
            seconds=1.0,
            selected_pages=len(pages),
            peak_memory_bytes=1,
        )
        collect_document(path, document, reading, run, [(ChunkResult(pages=tuple(pages), state=STATE), ())])
    return path


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"statuses": ("failed", "truncated", "quarantined")}, [("first", 2), ("second", 1)]),
        ({"statuses": ("truncated",)}, [("second", 1)]),
        ({"statuses": ("stale",)}, [("first", 3)]),
        ({"statuses": ("failed",), "config_sha256": OLD.sha256[:8]}, [("first", 1), ("first", 2)]),
        ({"document_id": "first", "page_numbers": (1, 3)}, [("first", 1), ("first", 3)]),
        ({"document_id": "first", "chunk_numbers": (1,)}, [("first", 1), ("first", 2), ("first", 3)]),
        ({"document_id": "first", "chunk_numbers": (2,)}, []),
        ({"since": datetime(2026, 1, 3, tzinfo=UTC)}, [("second", 1)]),
        ({"model": "compact", "document_id": "second"}, [("second", 1)]),
        ({"model": "weights", "document_id": "second"}, [("second", 1)]),
        ({"model": "unlimited-ocr"}, []),
    ],
)
def test_pages_are_found_by_document_status_chunk_date_model_and_configuration(
    warehouse: Path, query: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    with open_warehouse(warehouse) as connection:
        found = find_pages(connection, PageQuery(**query))
    assert [(found_page.document_id, found_page.page_number) for found_page in found] == expected


def test_a_document_that_was_never_read_is_refused_with_those_there_are(warehouse: Path) -> None:
    with open_warehouse(warehouse) as connection, pytest.raises(ConfigError, match=r"'frist'.*first, second"):
        find_pages(connection, PageQuery(document_id="frist"))


def test_a_page_that_the_latest_run_left_out_is_not_found(warehouse: Path) -> None:
    document = DocumentRef(document_id="first", uri="first", sha256="first", page_count=3, kind="pdf")
    run = RunRecord(
        run_id="first 4",
        model_fingerprint="weights",
        started_at=datetime(2026, 1, 4, tzinfo=UTC),
        seconds=1.0,
        selected_pages=1,
        peak_memory_bytes=1,
    )
    chunk = ChunkResult(pages=(page(1, PageStatus.FAILED),), state=STATE)
    collect_document(warehouse, document, NEW, run, [(chunk, ())])
    with open_warehouse(warehouse) as connection:
        found = find_pages(connection, PageQuery(document_id="first", statuses=("failed",)))
    assert [found_page.page_number for found_page in found] == [1]


def test_attempts_are_counted_by_page_and_configuration(warehouse: Path) -> None:
    attempt = BackfillAttempt(
        run_id="1",
        document_sha256="first",
        config_sha256="c",
        page_number=2,
        reading_sha256="r",
        why="",
        replaced_status="failed",
        status="reading",
        attempted_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    ended = attempt.model_copy(update={"status": "failed", "reason": "torn"})
    with open_warehouse(warehouse) as connection:
        for run_id in "123":
            record_attempts(connection, [attempt.model_copy(update={"run_id": run_id})])
        record_attempts(connection, [ended])
        assert count_attempts(connection, "first", "c", "r") == {2: 3}, "its end is no attempt of its own"
        assert count_attempts(connection, "first", "c", "other") == {}


def test_a_change_of_configuration_is_checked_and_told() -> None:
    changed = changed_reading(NEW, {"render.dpi": 400, "compact.lexicon_rescoring": False})
    assert changed_fields(NEW, changed) == ["render.dpi=400", "compact.lexicon_rescoring=False"]
    with pytest.raises(ConfigError, match=r"no dpi, render\.colour in"):
        changed_reading(NEW, {"dpi": 400, "render.colour": 1})
    with pytest.raises(ConfigError, match="dpi"):
        changed_reading(NEW, {"render.dpi": 7})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "render.colour=1"], "no render.colour"),
        (["--set", "compact.detector_side_px=7"], "compact.detector_side_px"),
        (["--set", "sr_swa.window_pages=2", "--set", "sr_swa.lookahead_pages=2"], "must be below window_pages 2"),
        (["--dpi", "0"], "render.dpi"),
    ],
)
def test_a_wrong_change_is_refused_though_no_document_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(["backfill", "-o", str(tmp_path), *arguments]) == ConfigError.exit_code
    assert told in capsys.readouterr().err


def test_a_change_that_depends_on_the_documents_own_window_is_left_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backfill", "-o", str(tmp_path), "--set", "sr_swa.lookahead_pages=8"]) == ConfigError.exit_code
    assert "nothing to read again" in capsys.readouterr().err
