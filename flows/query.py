"""``tomeflow query``: SQL over the warehouse's export, so that nobody waits for a run or disturbs it."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_contracts.errors import ConfigError
from data_contracts.warehouse import EXPORT_FOLDER, open_export
from flows.settings import read_settings
from tasks.spool import spool

if TYPE_CHECKING:
    import duckdb

SPOOL_FOLDER = "spool"
WIDEST_CELL = 60


def run_query(output: str | Path, sql: str, export: str | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return column names and rows of ``sql`` over the export below ``output``, or over the one at ``export``.

    Raises:
        ConfigError: the statement is wrong (the message is the database's, with the tables there are), changes
            something or is none; or nothing was ever read into ``output``.
        StorageUnavailable: the export is damaged.
    """
    import duckdb

    work = read_settings(str(output)).work_folder
    if not export and not (work / EXPORT_FOLDER).is_dir():
        raise ConfigError(f"there is nothing to ask in {output} yet: no document was read into it. Is -o right?")
    connection = open_export(_local_copy(export, work / SPOOL_FOLDER) if export else work / EXPORT_FOLDER)
    try:
        _refuse_changes(connection.extract_statements(sql))
        result = connection.execute(sql)
        return [column[0] for column in result.description or []], result.fetchall()
    except duckdb.Error as error:
        names = ", ".join(row[0] for row in connection.execute("SHOW TABLES").fetchall())
        raise ConfigError(f"{' '.join(str(error).split())}. Tables and views: {names}.") from None
    finally:
        connection.close()


def _refuse_changes(statements: Sequence[duckdb.Statement]) -> None:
    """Refuse what changes rows or tables: it would seem done, and the copy that it is done to is thrown away."""
    import duckdb

    kinds = duckdb.StatementType
    changing = {kinds.INSERT, kinds.UPDATE, kinds.DELETE, kinds.MERGE_INTO, kinds.DROP, kinds.ALTER}
    if not statements:
        raise ConfigError('there is no statement to run: say what to ask, such as "SHOW TABLES".')
    if any(statement.type in changing for statement in statements):
        raise ConfigError("tomeflow query only asks: a statement that changes something would reach a copy alone.")


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
    columns, rows = run_query(options.output, options.sql, options.export)
    if options.form == "json":
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str, ensure_ascii=False))
    elif options.form == "csv":
        csv.writer(sys.stdout).writerows([columns, *rows])
    else:
        print(as_table(columns, rows))
    return 0
