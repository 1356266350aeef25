"""``tomeflow query``: SQL over the warehouse's export, so that nobody waits for a run or disturbs it.

It asks and does nothing else: statements that change, prepare or set something are refused by their kind, files are out
of reach, and time, memory and rows have a bound.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_contracts.errors import ConfigError, OutOfMemory
from data_contracts.warehouse.connection import EXPORT_FOLDER, QUERY_MEMORY, open_export
from flows.settings import read_settings
from tasks.isolation import IsolatedProcess, Lost
from tasks.sources.spool import spool

if TYPE_CHECKING:
    import duckdb

SPOOL_FOLDER = "spool"
WIDEST_CELL = 60
QUERY_SECONDS = 60.0
"""Ready views over a million pages take seconds."""
OPEN_SECONDS = 600.0
"""Processor time to read the largest export into memory."""
MOST_ROWS = 1_000_000
"""What a person or a spreadsheet takes; rows are held in memory to be laid out."""
FETCHED_ROWS = 10_000
_LESS = "Ask for less: fewer columns, a WHERE, or sums in place of rows."
_COMMENTS = re.compile(r"^(\s*--[^\n]*\n|\s*/\*.*?\*/)*\s*", re.DOTALL)
"""Before a statement."""
_LITERALS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_PIVOT = re.compile(r"(PIVOT|PIVOT_WIDER|UNPIVOT|PIVOT_LONGER|FROM|SELECT|WITH)\b", re.IGNORECASE)
_CHANGE = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_EXPLAIN = re.compile(r"EXPLAIN\s+(ANALYZE\s+)?(\([^)]*\)\s*)?", re.IGNORECASE)
_READING_PRAGMA = re.compile(r"PRAGMA\s+(table_info|show|version|database_size)\b", re.IGNORECASE)


def run_query(
    output: str | Path, sql: str, export: str | None = None, seconds: float = QUERY_SECONDS
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return column names and rows of ``sql`` over the export below ``output``, or over the one at ``export``.

    Raises:
        ConfigError: the statement is wrong (the message is the database's, with the tables there are), does anything
            but ask, is none, or takes more than ``seconds`` or ``MOST_ROWS``; or nothing was ever read into ``output``.
        OutOfMemory: it needs more memory than a query may have.
        StorageUnavailable: the export is damaged.
    """
    work = read_settings(str(output)).work_folder
    if not export and not (work / EXPORT_FOLDER).is_dir():
        raise ConfigError(f"there is nothing to ask in {output} yet: no document was read into it. Is -o right?")
    folder = _local_copy(export, work / SPOOL_FOLDER) if export else work / EXPORT_FOLDER
    with IsolatedProcess() as process:
        try:
            process.call(OpenExport, folder, seconds=OPEN_SECONDS)
            busy_seconds = seconds * (os.cpu_count() or 1)  # the clock decides, however many processors take part
            columns, rows = process.ask("answer()", sql, seconds=busy_seconds, clock_seconds=seconds)
        except Lost as error:
            if not error.is_too_slow:
                raise OutOfMemory(f"the query could not be answered: {error}. {_LESS}") from None
            raise ConfigError(
                f"the query took longer than {seconds:g} s and was ended. {_LESS} Or allow it more with --seconds."
            ) from None
    return columns, rows


class OpenExport:
    """The export, open for questions. Made in a process that can be ended: not all that DuckDB does can be stopped."""

    def __init__(self, folder: Path) -> None:
        """Open the export in ``folder``."""
        self._connection = open_export(folder)

    def answer(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return column names and rows.

        Raises:
            ConfigError: ``sql`` is wrong, does anything but ask, is none, or has too many rows.
            OutOfMemory: it needs too much memory.
        """
        import duckdb

        connection = self._connection
        try:
            _refuse_all_but_questions(connection, sql)
            result = connection.execute(sql)
            return [column[0] for column in result.description or []], _rows(result)
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            what = " ".join(str(error).split()).partition(" Possible solutions")[0] or "none is left"
            raise OutOfMemory(f"the query needs more memory than {QUERY_MEMORY} ({what}). {_LESS}") from None
        except duckdb.Error as error:
            names = ", ".join(row[0] for row in connection.execute("SHOW TABLES").fetchall())
            raise ConfigError(f"{' '.join(str(error).split())}. Tables and views: {names}.") from None


def _refuse_all_but_questions(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse what changes, prepares or sets something: it would seem done, and what it is done to is thrown away."""
    import duckdb

    kinds = duckdb.StatementType
    statements = connection.extract_statements(sql)
    if not statements:
        raise ConfigError('there is no statement to run: say what to ask, such as "SHOW TABLES".')
    for statement in statements:
        asked = _COMMENTS.sub("", statement.query)
        if statement.type == kinds.EXPLAIN and _EXPLAIN.match(asked):
            _refuse_all_but_questions(connection, _EXPLAIN.sub("", asked, count=1))
        elif statement.type != kinds.SELECT and not _is_a_question(statement.type.name, asked):
            raise ConfigError(
                f"tomeflow query only asks (SELECT, SHOW, DESCRIBE, SUMMARIZE, EXPLAIN): {statement.type.name} would "
                "change a copy that is thrown away, or reach for something that is out of reach."
            )


def _is_a_question(kind: str, asked: str) -> bool:
    """Return whether a statement of a kind that may ask or not does ask: PIVOT is several in one."""
    if kind == "PRAGMA":
        return bool(_READING_PRAGMA.match(asked))
    return kind == "MULTI" and bool(_PIVOT.match(asked)) and not _CHANGE.search(_LITERALS.sub("", asked))


def _rows(result: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    while some := result.fetchmany(FETCHED_ROWS):
        rows += some
        if len(rows) > MOST_ROWS:
            raise ConfigError(
                f"the query has more than {MOST_ROWS:,} rows. Ask for fewer (LIMIT, WHERE, sums); the tables lie "
                "whole in the Parquet files that tomeflow export writes."
            )
    return rows


def _local_copy(export: str, spool_folder: Path) -> Path:
    try:
        return spool(export, spool_folder)
    except FileNotFoundError:
        raise ConfigError(f"there is no export at {export}: write one with tomeflow export --to {export}.") from None


def as_table(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    """Return the rows for people, in aligned columns; long cells are cut."""
    cells = [columns, *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= WIDEST_CELL else f"{text[: WIDEST_CELL - 1]}…"


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow query`` with parsed ``options`` (``output``, ``sql``, ``form``) and return the exit code."""
    columns, rows = run_query(options.output, options.sql, options.export, options.seconds)
    if options.form == "json":
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str, ensure_ascii=False))
    elif options.form == "csv":
        csv.writer(sys.stdout).writerows([columns, *rows])
    else:
        print(as_table(columns, rows))
    return 0
