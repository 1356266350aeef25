"""The warehouse is exported once a run, at its end, and what a killed run has left is made good."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from data_contracts.errors import StorageUnavailable, UnreadableDocument
from data_contracts.warehouse.connection import WAREHOUSE_FILE, export_warehouse, open_export, open_warehouse
from flows.execution import exports
from flows.execution.exports import DUE_FOLDER, exported_at_the_end

KILLED = """
import os, sys
from pathlib import Path
from flows.execution.exports import exported_at_the_end
with exported_at_the_end(Path(sys.argv[1])):
    print("begun", flush=True)
    sys.stdin.read()
    os._exit(1)
"""


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders that were exported to, in order."""
    done: list[Path] = []

    def counted(path: Path, folder: Path) -> None:
        export_warehouse(path, folder)
        done.append(folder)

    monkeypatch.setattr(exports, "export_warehouse", counted)
    return done


def collect(work: Path, name: str = "book") -> None:
    with open_warehouse(work / WAREHOUSE_FILE) as connection:
        connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?)", [name, name, "pdf", name, 1])


def collected(work: Path) -> int:
    connection = open_export(work / "export")
    (row,) = connection.execute("SELECT count(*) FROM documents").fetchall()
    connection.close()
    return int(row[0])


def marks(work: Path) -> list[Path]:
    return list((work / DUE_FOLDER).iterdir())


def run_that_ends_with(work: Path, error: Exception | None, *, room: bool = True) -> None:
    """Collect a document; without ``room``, no export can be written afterwards."""
    with exported_at_the_end(work):
        collect(work)
        if not room:
            (work / "export" / "documents.parquet").mkdir(parents=True)  # no file takes the place of a folder
        if error:
            raise error


def test_runs_inside_a_run_leave_the_export_to_it(tmp_path: Path, exported: list[Path]) -> None:
    with exported_at_the_end(tmp_path):
        for name in ("one", "two", "three"):
            with exported_at_the_end(tmp_path):
                collect(tmp_path, name)
        assert exported == []
    assert (len(exported), collected(tmp_path), marks(tmp_path)) == (1, 3, [])
    with exported_at_the_end(tmp_path):
        pass
    assert len(exported) == 2, "the next run is not inside of one"


def test_a_run_that_fails_is_exported_too(tmp_path: Path, exported: list[Path]) -> None:
    with pytest.raises(UnreadableDocument):
        run_that_ends_with(tmp_path, UnreadableDocument("torn"))
    assert (len(exported), collected(tmp_path), marks(tmp_path)) == (1, 1, [])


def test_a_run_that_collected_nothing_leaves_no_warehouse(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument), exported_at_the_end(tmp_path):
        raise UnreadableDocument("torn")
    assert not (tmp_path / WAREHOUSE_FILE).exists()


@pytest.mark.parametrize("error", [None, UnreadableDocument("torn")])
def test_an_export_that_fails_hides_no_other_error_and_stays_due(tmp_path: Path, error: Exception | None) -> None:
    with pytest.raises(type(error) if error else StorageUnavailable):
        run_that_ends_with(tmp_path, error, room=False)
    assert len(marks(tmp_path)) == 1
    (tmp_path / "export" / "documents.parquet").rmdir()
    with exported_at_the_end(tmp_path):
        assert collected(tmp_path) == 1, "made good at the start"
    assert marks(tmp_path) == []


def run_elsewhere(work: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", KILLED, str(work)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("end", "at_the_start"), [(subprocess.Popen.kill, 1), (lambda run: None, 0)], ids=["killed", "alive"]
)
def test_what_a_killed_run_has_left_is_exported_at_the_next_start(
    tmp_path: Path, exported: list[Path], end: Callable[[subprocess.Popen[str]], None], at_the_start: int
) -> None:
    with run_elsewhere(tmp_path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "begun\n"
        collect(tmp_path)
        end(other)
        if at_the_start:
            other.wait(timeout=60)
        with exported_at_the_end(tmp_path):
            assert len(exported) == at_the_start
        assert len(marks(tmp_path)) == 1 - at_the_start, "that of the other run while it lives"
        other.kill()
