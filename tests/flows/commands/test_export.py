"""The export: whole Parquet files in a folder or an object store, readable by anybody and by tomeflow query."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from support.judged import judge_document, prose_page

from data_contracts.errors import ConfigError, StorageUnavailable
from data_contracts.warehouse.connection import TABLES
from flows.commands.cli import main
from flows.commands.export import export_to
from flows.commands.query import run_query


def test_a_folder_gets_every_table_as_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge_document(tmp_path / "out", [prose_page(n) for n in range(1, 4)])
    assert main(["export", "--to", str(tmp_path / "metrics"), "-o", str(tmp_path / "out")]) == 0
    assert {path.stem for path in (tmp_path / "metrics").iterdir()} == set(TABLES)
    assert str(tmp_path / "metrics" / "pages.parquet") in capsys.readouterr().out
    rows = duckdb.sql(f"SELECT count(*) FROM read_parquet('{tmp_path}/metrics/pages.parquet')").fetchall()
    assert rows == [(3,)]


def test_an_object_store_is_written_and_asked_from_elsewhere(tmp_path: Path, s3_bucket: str) -> None:
    judge_document(tmp_path / "out", [prose_page(n) for n in range(1, 4)])
    export_to(str(tmp_path / "out"), f"{s3_bucket}/metrics")
    sql = "SELECT document_id, pages FROM error_rate"
    assert run_query(tmp_path / "elsewhere", sql, f"{s3_bucket}/metrics")[1] == [("book-000000000000", 3)]
    judge_document(tmp_path / "out", [prose_page(n) for n in range(1, 3)], name="other")
    export_to(str(tmp_path / "out"), f"{s3_bucket}/metrics")
    assert len(run_query(tmp_path / "elsewhere", sql, f"{s3_bucket}/metrics")[1]) == 2


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no warehouse yet"):
        export_to(str(tmp_path / "out"), str(tmp_path / "metrics"))
    with pytest.raises(StorageUnavailable, match="cannot be read"):
        run_query(tmp_path / "out", "SELECT 1", str(tmp_path / "nowhere"))
