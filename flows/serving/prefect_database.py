"""The database of a server of ours: migrated whole before a server sees it, by one process at a time.

Prefect migrates at each start, in place and not in one transaction: two servers that start at once, or one that is
killed, leave a database that no server can use. So the first who comes migrates an empty one once for this machine and
version (a dozen seconds of processor time) and copies it wherever a new output begins; the others wait.
"""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from data_contracts.errors import MigrationFailed, OutOfMemory, StorageUnavailable
from data_contracts.out_of_memory import is_out_of_memory
from flows.serving.parent_watchdog import child_environment
from flows.settings import cache_folder, has_own_database
from tasks import storage

DATABASE = "prefect.db"
_BESIDE = ("-wal", "-shm")
_BROKEN = ("OperationalError", "IntegrityError", "DatabaseError", "ValueError: No such")
"""What a migration ends with that meets the half of an earlier one (its tables, columns and indexes may be there or
not), or a file that is no database."""

_NO_ROOM = ("disk is full", "disk I/O error", "No space left", "File too large")


@contextmanager
def ready_database(home: Path) -> Iterator[None]:
    """Have a migrated database in ``home``; whoever has just put it there is alone with it until the block ends.

    Raises:
        MigrationFailed: it cannot be migrated.
        OutOfMemory: nor can anything else here.
        StorageUnavailable: nothing can be written there.
    """
    if has_own_database():
        yield
        return
    with _alone(home / "start.lock", f"another tomeflow sets up {home}; waiting for it"):
        if not _is_ready(home):
            with storage.storage_errors(str(home), "set up the Prefect server's database in"):
                _make_ready(home)
            yield
            _marker(home).write_text(version("prefect"))
            return
    yield


@contextmanager
def _alone(lock_file: Path, while_waiting: str) -> Iterator[None]:
    with storage.open_local(lock_file, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"tomeflow: {while_waiting}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _marker(home: Path) -> Path:
    """Return the file that says which Prefect the database has served; written when a server of it has answered."""
    return home / "prefect.version"


def _is_ready(home: Path) -> bool:
    with suppress(FileNotFoundError):
        return (home / DATABASE).exists() and _marker(home).read_text() == version("prefect")
    return False


def _make_ready(home: Path) -> None:
    """Put a migrated database in place: a new one, or a migrated copy of the one that is there."""
    database = home / DATABASE
    empty = _migrated_empty_database(home)
    if not database.exists():
        _put(empty, database)
        return
    revision = _revision(database)
    if revision is not None and revision == _revision(empty):
        return
    copy = storage.part_of(empty)
    try:
        if revision is not None:
            with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            if (fault := _migrate(copy)) is None:
                _put(copy, database)
                return
            if not any(sign in fault for sign in _BROKEN):
                raise MigrationFailed(
                    f"the database {database} cannot be brought to Prefect {version('prefect')}: {fault}"
                )
        aside = database.with_name(f"{DATABASE}.damaged-{uuid4().hex[:8]}")
        shutil.copyfile(database, aside)
        _put(empty, database)
        why = "a start of it was cut off, or the file is damaged"
        print(f"tomeflow: {database} was rebuilt ({why}); the old one is kept as {aside.name}", file=sys.stderr)
    finally:
        _remove(copy)


def _put(source: Path, database: Path) -> None:
    """Copy ``source`` to ``database``, which is whole when it is there."""
    part = storage.part_of(database)
    try:
        shutil.copyfile(source, part)
        _replace(part, database)
    finally:
        part.unlink(missing_ok=True)


def _replace(new: Path, database: Path) -> None:
    _remove_beside(database)  # a log of the old one would be applied to the new
    new.replace(database)


def _remove(database: Path) -> None:
    database.unlink(missing_ok=True)
    _remove_beside(database)


def _remove_beside(database: Path) -> None:
    for suffix in _BESIDE:
        database.with_name(f"{database.name}{suffix}").unlink(missing_ok=True)


def _revision(database: Path) -> str | None:
    """Return the last migration that a database has had; None if it is no database, or none of Prefect's."""
    if not database.exists():
        return None
    try:
        with closing(sqlite3.connect(database)) as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                return None
            ((revision,),) = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    except (sqlite3.Error, ValueError):
        return None
    return str(revision)


def _migrated_empty_database(home: Path) -> Path:
    """Return an empty database of this Prefect, made once on this machine; nothing in it tells of any output."""
    try:
        return _made_once(cache_folder())
    except StorageUnavailable:  # no home, or one that nothing can be written to
        return _made_once(home)


def _made_once(folder: Path) -> Path:
    ready = folder / f"prefect-{version('prefect')}.db"
    with _alone(folder / "prefect.lock", "another tomeflow makes the first database of this machine; waiting for it"):
        if _revision(ready) is None:
            part = storage.part_of(ready)
            part.touch(0o600)
            try:
                if fault := _migrate(part):
                    raise MigrationFailed(
                        f"no database can be made for Prefect {version('prefect')} in {folder}: {fault}"
                    )
                _replace(part, ready)
            finally:
                _remove(part)
    return ready


def _migrate(database: Path) -> str | None:
    """Bring ``database`` to this version of Prefect, in a process of its own; return what it said last if it failed."""
    url = f"sqlite+aiosqlite:///{database.resolve()}"
    done = subprocess.run(
        [sys.executable, "-m", "flows.serving.parent_watchdog", "prefect", "server", "database", "upgrade", "-y"],
        env={**child_environment(), "PREFECT_API_DATABASE_CONNECTION_URL": url, "PREFECT_HOME": str(database.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.returncode:
        with closing(sqlite3.connect(database)) as connection:  # all of it into one file
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return None
    said = done.stderr or done.stdout
    if any(sign in said for sign in _NO_ROOM):
        raise StorageUnavailable(
            f"{database} could not be written: {_last_line(said)}{storage.room_left(str(database))}"
        )
    if is_out_of_memory(said):
        raise OutOfMemory(f"memory ran out while the Prefect server's database was set up: {_last_line(said)}.")
    return _last_line(said) or f"exit code {done.returncode}"


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line and not line.startswith("File")]
    return (errors or lines or [""])[-1]
