"""Several commands begin one new output at once: one sets up the server's database, the others wait and say so."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from support.failures.processes import children_of, until

from data_contracts.warehouse.connection import TABLES, open_warehouse
from flows.serving.prefect_database import DATABASE, ready_database

pytestmark = [pytest.mark.flow]

AT_ONCE = 3
PATIENCE_S = 900
ROUNDS = 3
API = """
import sys, urllib.request
from pathlib import Path
from flows.settings import set_library_defaults
set_library_defaults()
from flows.serving.prefect_server import prefect_api
with prefect_api(Path(sys.argv[1]), None) as url:
    print(urllib.request.urlopen(f"{url}/flows/count", data=b"{}").status, flush=True)
    sys.stdin.read()
"""
WAREHOUSE = """
import sys
from pathlib import Path
from data_contracts.warehouse.connection import open_warehouse
with open_warehouse(Path(sys.argv[1])) as connection:
    print(connection.execute("SELECT count(*) FROM migrations").fetchone()[0])
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of this module's own, so that the first database of a machine is made here."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def with_own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


def begin(code: str, folder: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, str(folder)], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def revision(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def earlier_revision(steps: int) -> str:
    from alembic.script import ScriptDirectory
    from prefect.server.database.alembic_commands import alembic_config

    folder = Path(alembic_config().config_file_name).parent / "_migrations"
    scripts = ScriptDirectory(str(folder), version_locations=[str(folder / "versions" / "sqlite")])
    return [script.revision for script in scripts.walk_revisions()][steps]


@pytest.fixture
def home(tmp_path: Path, cache: Path) -> Iterator[Path]:
    """The home of a server whose database is whole."""
    home = tmp_path / "prefect"
    with ready_database(home):
        pass
    yield home
    assert revision(home / DATABASE) == revision(cache / "tomeflow" / f"prefect-{version('prefect')}.db")


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_servers_that_start_at_once_in_a_new_output_all_answer(tmp_path: Path, round_number: int) -> None:
    del round_number
    begun = [begin(API, tmp_path) for _ in range(AT_ONCE)]
    ends = [process.communicate(timeout=PATIENCE_S) for process in begun]
    assert [out for out, _ in ends] == ["200\n"] * AT_ONCE, ends
    assert [process.returncode for process in begun] == [0] * AT_ONCE, ends
    waited = [err for _, err in ends if "another tomeflow sets up" in err and "waiting for it" in err]
    assert len(waited) >= 1, ends
    assert all(err.count("\n") <= 1 for _, err in ends), ends
    assert not list(tmp_path.rglob("*.part*"))


def test_who_is_killed_amid_the_first_migration_leaves_nothing_that_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = begin(API, tmp_path / "work")
    assert until(lambda: any(part.stat().st_size for part in tmp_path.rglob("*.part*")), PATIENCE_S)
    children = children_of(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), PATIENCE_S)
    second = begin(API, tmp_path / "work")
    out, err = second.communicate(timeout=PATIENCE_S)
    assert (out, second.returncode) == ("200\n", 0), err


def test_a_database_that_an_earlier_start_left_half_migrated_is_made_anew(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(home / DATABASE)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [earlier_revision(30)])
    (home / "prefect.version").unlink()
    with ready_database(home):
        pass
    told = capfd.readouterr().err
    assert "was rebuilt" in told
    assert [path.name in told for path in home.glob(f"{DATABASE}.damaged-*")] == [True]


@pytest.mark.parametrize("content", [b"", b"no database at all" * 1000])
def test_a_file_that_is_no_database_is_made_anew(home: Path, content: bytes) -> None:
    (home / DATABASE).write_bytes(content)
    (home / "prefect.version").unlink()
    with ready_database(home):
        pass


def test_what_is_in_a_whole_database_stays(home: Path) -> None:
    with closing(sqlite3.connect(home / DATABASE)) as connection, connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    for _ in range(2):
        with ready_database(home):
            pass
        (home / "prefect.version").unlink(missing_ok=True)
    with closing(sqlite3.connect(home / DATABASE)) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)


def test_a_damaged_ready_made_database_is_not_handed_out(home: Path, cache: Path, tmp_path: Path) -> None:
    ready = cache / "tomeflow" / f"prefect-{version('prefect')}.db"
    ready.write_bytes(ready.read_bytes()[:5000])
    with ready_database(tmp_path / "other"):
        pass
    assert revision(tmp_path / "other" / DATABASE) == revision(ready) == revision(home / DATABASE)


def test_a_database_of_the_users_own_is_left_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "sqlite+aiosqlite:///elsewhere.db")
    with ready_database(tmp_path / "prefect"):
        pass
    assert not (tmp_path / "prefect").exists()


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_a_new_warehouse_is_migrated_once_by_those_who_open_it_at_once(tmp_path: Path, round_number: int) -> None:
    del round_number
    path = tmp_path / "warehouse.duckdb"
    begun = [begin(WAREHOUSE, path) for _ in range(AT_ONCE)]
    ends = [process.communicate(timeout=PATIENCE_S) for process in begun]
    assert [process.returncode for process in begun] == [0] * AT_ONCE, ends
    assert len({out for out, _ in ends}) == 1
    with open_warehouse(path) as connection:
        assert {row[0] for row in connection.execute("SHOW TABLES").fetchall()} >= set(TABLES)
