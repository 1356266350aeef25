"""The metrics warehouse: one DuckDB file, numbered migrations, upserts.

DuckDB lets one process hold a file: connections are short, and whoever finds it locked waits its turn.
A warehouse that is damaged or gone is rebuilt from its Parquet export; the damaged one is kept aside.
"""

from __future__ import annotations

import fcntl
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from data_contracts.errors import OutOfMemory, StorageUnavailable
from data_contracts.out_of_memory import is_out_of_memory, memory_bound

if TYPE_CHECKING:
    import duckdb

SCHEMA_FOLDER = Path(__file__).parent / "schema"
VIEWS_FILE = SCHEMA_FOLDER / "views.sql"
TABLES = (
    "documents",
    "runs",
    "chunks",
    "pages",
    "events",
    "page_measures",
    "low_confidence_lines",
    "evaluations",
    "verdicts",
    "releases",
    "page_accuracy",
    "archive_objects",
    "backfill_attempts",
)
"""All tables of the warehouse, each a file of the export."""
WAREHOUSE_FILE = "warehouse.duckdb"
EXPORT_FOLDER = "export"
"""Both lie in the work folder."""
LOCK_TIMEOUT_S = 120.0
LOCK_POLL_S = 0.2
DAMAGE = ("not a valid duckdb database", "could not read enough bytes", "corrupt database file", "corrupt wal file")
"""What DuckDB 1.4 to 2.0 says of a file that is none of its own, is cut off, or (it or its log) fails a checksum."""

QUERY_MEMORY = "2GB"
"""For a query, whose tables are held in memory already: more than the largest warehouse's views need."""
_CLOSED = (
    "python_enable_replacements = false",  # a variable of the calling program is no table
    "enable_progress_bar = false",
    "temp_directory = ''",
    f"memory_limit = '{QUERY_MEMORY}'",
    "enable_external_access = false",
    "lock_configuration = true",
)

logger = logging.getLogger(__name__)

# DuckDB keeps other processes out; threads of one share the file and would meet in its catalogue.
_ONE_WRITER = threading.Lock()


@contextmanager
def open_warehouse(path: Path, lock_timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to the migrated warehouse inside one transaction; an error rolls it back.

    A file that is damaged, or gone while its export is there, is rebuilt from the export first.

    Raises:
        StorageUnavailable: another process held the file for longer than ``lock_timeout_s``; the file proved damaged
            in the middle and was rebuilt; or neither the file nor its export can be read.
    """
    import duckdb

    path.parent.mkdir(parents=True, exist_ok=True)
    with _ONE_WRITER:
        connection = _connect(path, lock_timeout_s)
        try:
            connection.begin()
            _migrate(connection)
            yield connection
            connection.commit()
        except BaseException as error:
            with suppress(duckdb.Error):  # a damaged file may refuse this too, and its own error says more
                connection.rollback()
            if not _is_damage(error, path):
                raise
            with _alone_at(path):  # nobody else can have mended it: the connection still holds the file
                connection.close()
                _rebuild(path, error)
            raise StorageUnavailable(
                f"the warehouse {path} was damaged ({_first_line(error)}) and was rebuilt from its export, if any. "
                "What was being written is not in it: run this again."
            ) from error
        finally:
            connection.close()


def is_begun(work: Path) -> bool:
    """Return whether the work folder has a warehouse, or the export that it can be rebuilt from."""
    return (work / WAREHOUSE_FILE).is_file() or _has_export(work / EXPORT_FOLDER)


@contextmanager
def read_warehouse(work: Path, lock_timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[duckdb.DuckDBPyConnection | None]:
    """Yield the warehouse, or its export while another process writes; None where no run has ever collected anything.

    Raises:
        StorageUnavailable: neither can be read.
    """
    if not is_begun(work):
        yield None
        return
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(open_warehouse(work / WAREHOUSE_FILE, lock_timeout_s))
        except StorageUnavailable:
            connection = stack.enter_context(closing(open_export(work / EXPORT_FOLDER)))
        yield connection


def _connect(path: Path, lock_timeout_s: float) -> duckdb.DuckDBPyConnection:
    import duckdb

    deadline = time.monotonic() + lock_timeout_s
    while True:
        with _alone_at(path):
            try:
                if not path.exists() and _has_export(path.parent / EXPORT_FOLDER):
                    _rebuild(path, "it is missing")
                return duckdb.connect(str(path))
            except (duckdb.Error, MemoryError) as error:
                if is_out_of_memory(error):
                    what = f"memory ran out while the warehouse {path} was opened ({_first_line(error)})"
                    raise OutOfMemory(f"{what}. {memory_bound()}Give it more, or do less at a time.") from error
                if _is_damage(error, path):
                    _rebuild(path, error)
                    return duckdb.connect(str(path))
                if "lock on file" not in str(error).lower() or time.monotonic() > deadline:
                    raise StorageUnavailable(
                        f"the warehouse {path} cannot be opened for writing ({error}). "
                        "If another run holds it, wait for that run or end it."
                    ) from error
        time.sleep(LOCK_POLL_S)


@contextmanager
def _alone_at(path: Path) -> Iterator[None]:
    """Let no other process open or replace the warehouse meanwhile; this is held for moments, never while writing."""
    with ExitStack() as stack:
        try:
            fcntl.flock(stack.enter_context(path.with_name(f"{path.name}.lock").open("wb")), fcntl.LOCK_EX)
        except OSError as error:
            raise StorageUnavailable(f"nothing can be written beside the warehouse {path} ({error}).") from error
        yield


def _is_damage(error: BaseException, path: Path) -> bool:
    import duckdb

    said = str(error).replace(str(path), "").lower()  # a folder may be named like a damage
    return isinstance(error, duckdb.Error) and any(sign in said for sign in DAMAGE)


def _rebuild(path: Path, why: object) -> None:
    """Put a warehouse that holds what the export holds in the place of ``path``, and keep what is there aside.

    The new one is whole before the old one is moved: whoever is killed here leaves a file or an export to begin from.
    """
    import duckdb

    folder = path.parent / EXPORT_FOLDER
    new = path.with_name(f"{path.name}.new")
    for left_over in (new, _wal_of(new)):
        left_over.unlink(missing_ok=True)
    with duckdb.connect(str(new)) as connection:
        connection.begin()
        _migrate(connection)
        if _has_export(folder):
            _fill(connection, path, folder, why)
        connection.commit()
        connection.execute("CHECKPOINT")  # all of it into the file: the log beside it does not move along
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}-{uuid4().hex[:4]}")
    for old, kept in ((_wal_of(path), _wal_of(aside)), (path, aside)):
        if old.exists():
            old.rename(kept)
    new.rename(path)
    logger.warning(
        "The warehouse %s was rebuilt from %s: %s. What was written since the last export is not in it.%s",
        path,
        folder if _has_export(folder) else "nothing, there was no export",
        _first_line(why),
        f" The damaged file is kept as {aside.name}." if aside.exists() else "",
    )


def _fill(connection: duckdb.DuckDBPyConnection, path: Path, folder: Path, why: object) -> None:
    """Copy the export into the new tables; columns that an earlier version did not export keep their defaults."""
    import duckdb

    try:
        for table in TABLES:
            file = _quoted(folder / f"{table}.parquet")
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet('{file}')")
    except duckdb.Error as error:
        raise StorageUnavailable(
            f"the warehouse {path} cannot be used ({_first_line(why)}), nor its export {folder} to rebuild it from "
            f"({_first_line(error)}). Put one of them back from a copy; or move both away, to begin without the past."
        ) from error


def _has_export(folder: Path) -> bool:
    return any((folder / f"{table}.parquet").exists() for table in TABLES)


def _wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def _first_line(reason: object) -> str:
    return (str(reason).splitlines() or [type(reason).__name__])[0]


def _migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Apply the numbered files of ``schema/`` that this warehouse has not seen, in order."""
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name VARCHAR NOT NULL)")
    done = {row[0] for row in connection.execute("SELECT number FROM migrations").fetchall()}
    for file in sorted(SCHEMA_FOLDER.glob("[0-9]*.sql")):
        number = int(file.name.split("_")[0])
        if number not in done:
            connection.execute(file.read_text())
            connection.execute("INSERT INTO migrations VALUES (?, ?)", [number, file.name])
    connection.execute(VIEWS_FILE.read_text())


def export_warehouse(path: Path, folder: Path) -> None:
    """Write every table to ``folder`` as Parquet, for readers: nobody can read the warehouse while it is written.

    A file that is there is whole, the last export's or this one's.

    Raises:
        StorageUnavailable: as ``open_warehouse``, or a file cannot be written.
    """
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    with open_warehouse(path) as connection:
        for table in TABLES:
            part = folder / f".{table}.{uuid4().hex}.part"
            try:
                connection.execute(f"COPY {table} TO '{_quoted(part)}' (FORMAT parquet)")
                part.replace(folder / f"{table}.parquet")
            except (OSError, duckdb.IOException) as error:
                if _is_damage(error, path):
                    raise
                raise StorageUnavailable(
                    f"the export {folder / table}.parquet cannot be written ({_first_line(error)}). "
                    "Make room there, or make it writable, then run again: finished work is kept."
                ) from error
            finally:
                part.unlink(missing_ok=True)


def open_export(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a database in memory that holds the export and the ready views, and can reach nothing else.

    It reads no file, writes none (not even of its own, where memory does not suffice), and keeps its settings.

    Raises:
        StorageUnavailable: there is no export, or a part of it is missing or damaged.
    """
    import duckdb

    connection = duckdb.connect()
    try:
        for table in TABLES:
            file = folder / f"{table}.parquet"
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{_quoted(file)}')")
        connection.execute(VIEWS_FILE.read_text())
        for setting in _CLOSED:
            connection.execute(f"SET {setting}")
    except duckdb.Error as error:
        connection.close()
        raise StorageUnavailable(
            f"the export in {folder} cannot be read ({_first_line(error)}). Run a document: every run exports again."
        ) from error
    return connection


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def upsert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write ``rows`` whole: every column of ``table`` is named in each row, and of equal keys the last one stays."""
    if not rows:
        return
    import pyarrow as pa

    columns = [row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()]
    incoming = pa.table({column: [row[column] for row in rows] for column in columns})
    connection.register("incoming", incoming)
    names = ", ".join(columns)
    connection.execute(f"INSERT OR REPLACE INTO {table} ({names}) SELECT {names} FROM incoming")
    connection.unregister("incoming")
