"""``tomeflow query`` asks: whatever else a statement can do, it is one clear line, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import command
from support.failures.processes import children_of, until

from data_contracts.errors import ConfigError, OutOfMemory
from data_contracts.warehouse.connection import export_warehouse
from flows.commands.cli import main
from flows.commands.query import OpenExport, run_query

ANSWERED = [
    "SHOW TABLES",
    "SHOW ALL TABLES",
    "DESCRIBE pages",
    "SUMMARIZE pages",
    "FROM pages",
    "TABLE pages",
    "VALUES (1)",
    "PRAGMA table_info('pages')",
    "PRAGMA version",
    "EXPLAIN SELECT 1",
    "/* why */ EXPLAIN SELECT 1",
    "-- why\nPRAGMA version",
    "EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN (FORMAT json) SELECT 1",
    "WITH one AS (SELECT 1) FROM one",
    "PIVOT (SELECT 'text' AS status) ON status USING count(*)",
    "SELECT * FROM query('SELECT 1')",
]
REFUSED = {
    "PREPARE p AS SELECT 1": "PREPARE",
    "PREPARE p AS SELECT 1; EXECUTE p": "PREPARE",
    "EXECUTE p": "EXECUTE",
    "DEALLOCATE p": "DROP",
    "CREATE TABLE t (i INT)": "CREATE",
    "CREATE TABLE t AS FROM pages": "CREATE",
    "CREATE TEMP TABLE t (i INT)": "CREATE",
    "CREATE VIEW v AS SELECT 1": "CREATE",
    "CREATE OR REPLACE TEMP VIEW v AS SELECT 1": "CREATE",
    "CREATE MACRO f(x) AS x": "CREATE",
    "CREATE SECRET s (TYPE s3)": "CREATE",
    "CREATE SCHEMA s": "CREATE",
    "CREATE SEQUENCE s": "CREATE",
    "CREATE TYPE mood AS ENUM ('x')": "CREATE",
    "ATTACH 'other.duckdb'": "ATTACH",
    "DETACH memory": "DETACH",
    "USE memory": "SET",
    "COPY pages TO 'stolen.csv'": "COPY",
    "COPY pages FROM 'stolen.csv'": "COPY",
    "EXPORT DATABASE 'stolen'": "EXPORT",
    "IMPORT DATABASE 'stolen'": "PRAGMA",
    "INSTALL httpfs": "LOAD",
    "LOAD httpfs": "LOAD",
    "CALL pragma_version()": "CALL",
    "CHECKPOINT": "CALL",
    "VACUUM": "VACUUM",
    "BEGIN": "TRANSACTION",
    "SET profiling_output = 'profile.json'": "SET",
    "SET enable_profiling = 'json'": "SET",
    "PRAGMA enable_profiling = 'json'": "SET",
    "PRAGMA enable_profiling": "PRAGMA",
    "SET enable_external_access = true": "SET",
    "SET temp_directory = '.'": "SET",
    "RESET lock_configuration": "SET",
    "SET VARIABLE x = 1": "SET",
    "INSERT INTO pages SELECT * FROM pages": "INSERT",
    "WITH one AS (SELECT 1) DELETE FROM pages": "DELETE",
    "TRUNCATE pages": "DELETE",
    "UPDATE pages SET page_number = 1": "UPDATE",
    "ALTER TABLE pages RENAME TO p": "ALTER",
    "COMMENT ON TABLE pages IS 'x'": "ALTER",
    "DROP TABLE pages": "DROP",
    "EXPLAIN ANALYZE CREATE TABLE t (i INT)": "CREATE",
    "EXPLAIN (FORMAT json) DROP TABLE pages": "DROP",
    "/* why */ EXPLAIN ANALYZE DROP TABLE pages": "DROP",
    "CREATE TABLE t AS PIVOT (FROM pages) ON status USING count(*)": "MULTI",
    "COPY (PIVOT (FROM pages) ON status USING count(*)) TO 'stolen.csv'": "MULTI",
    "WITH one AS (SELECT 1) INSERT INTO pages PIVOT (FROM pages) ON status USING count(*)": "MULTI",
    "SELECT 1; CREATE TABLE t (i INT)": "CREATE",
}
OUT_OF_REACH = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_parquet('.tomeflow/export/pages.parquet')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'http://127.0.0.1:1/x.parquet'",
    "SELECT * FROM query('FROM read_text(''/etc/passwd'')')",
    "SELECT getenv('HOME')",
    "FROM OUT_OF_REACH",
]
ENDLESS = "SELECT count(*) FROM range(1000000000000000)"
SECONDS = 1
PATIENCE_S = 300


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    export_warehouse(folder / ".tomeflow" / "warehouse.duckdb", folder / ".tomeflow" / "export")
    return folder


@pytest.fixture(scope="module")
def opened(output: Path) -> OpenExport:
    return OpenExport(output / ".tomeflow" / "export")


@pytest.fixture
def in_output(output: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The output as working directory; nothing must be in it afterwards that was not there."""
    monkeypatch.chdir(output)
    before = sorted(output.rglob("*"))
    yield output
    assert sorted(output.rglob("*")) == before


@pytest.mark.parametrize("sql", ANSWERED)
def test_questions_are_answered(opened: OpenExport, sql: str) -> None:
    assert opened.answer(sql)[0]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_does_anything_else_is_refused_by_its_kind(in_output: Path, opened: OpenExport, sql: str) -> None:
    assert in_output
    with pytest.raises(ConfigError, match="only asks") as caught:
        opened.answer(sql)
    assert f": {REFUSED[sql]} would" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sql", OUT_OF_REACH)
def test_nothing_outside_the_export_can_be_read(in_output: Path, opened: OpenExport, sql: str) -> None:
    assert in_output
    with pytest.raises(ConfigError) as caught:
        opened.answer(sql)
    assert "root:" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range * b.range = -1",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT count(*) FROM r",
    ],
)
def test_an_endless_query_is_ended(in_output: Path, sql: str) -> None:
    with pytest.raises(ConfigError, match=r"longer than 1 s and was ended.*--seconds"):
        run_query(in_output, sql, seconds=SECONDS)


def test_rows_without_end_are_refused(in_output: Path) -> None:
    with pytest.raises(ConfigError, match="more than 1,000,000 rows"):
        run_query(in_output, "FROM range(1000000000000)", seconds=PATIENCE_S)


def test_memory_has_a_bound_and_nothing_spills_to_disk(in_output: Path) -> None:
    with pytest.raises(OutOfMemory, match="the query needs more memory than 2GB"):
        run_query(in_output, "SELECT list_sum(range(3000000000))", seconds=PATIENCE_S)


def test_the_limit_is_a_setting_and_its_end_is_one_line(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", ENDLESS, "-o", str(output), "--seconds", str(SECONDS)]) == ConfigError.exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_an_interrupt_leaves_no_process_and_no_file(in_output: Path) -> None:
    with subprocess.Popen(
        command("query", ENDLESS, "-o", in_output, "--seconds", 600), cwd=in_output, stderr=subprocess.PIPE, text=True
    ) as query:
        try:
            assert until(lambda: children_of(query.pid), PATIENCE_S)
            children = children_of(query.pid)
            time.sleep(1)  # somewhere in its work; the end is the same wherever that is
            query.send_signal(signal.SIGINT)
            _, err = query.communicate(timeout=PATIENCE_S)
        finally:
            query.kill()
    assert query.returncode == 130, err
    assert until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), PATIENCE_S)
    assert os.getpid() not in children
