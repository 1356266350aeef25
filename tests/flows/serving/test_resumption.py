"""Runs whose process is gone are put back into the queue, and no run is lost or disturbed by looking for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import State
from prefect.states import Completed, Crashed, Running

from flows.serving.liveness_locks import interrupted_runs, locked_while_running
from flows.serving.resumption import MOST_STARTS, resume_interrupted_runs
from flows.settings import LOCKS_FOLDER_NAME


@dataclass
class KnownRun:
    state: State[Any]
    run_count: int = 1


@dataclass
class Server:
    """Answers as a server does that knows one run, or that has gone away."""

    run: KnownRun
    is_away: bool = False
    taken: list[State[Any]] = field(default_factory=list)
    on_taken: Callable[[], None] = lambda: None

    def read_flow_run(self, _flow_run_id: UUID) -> KnownRun:
        return self.run

    def set_flow_run_state(self, _flow_run_id: UUID, state: State[Any], *, force: bool) -> None:
        assert force
        if self.is_away:
            raise ConnectionError("the server is away")
        self.taken.append(state)
        self.on_taken()


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LOCKS_FOLDER_NAME, str(tmp_path))
    return tmp_path


@pytest.fixture
def lock_file(locks: Path) -> Path:
    """Left by a process that died."""
    path = locks / str(uuid4())
    path.touch()
    return path


def test_a_living_run_is_left_alone_and_its_lock_file_goes_with_it(locks: Path) -> None:
    with locked_while_running(locks, str(uuid4())):
        assert interrupted_runs(locks) == []
    assert list(locks.iterdir()) == []


@pytest.mark.parametrize("state", [Running(), Crashed()])
def test_a_run_that_died_is_put_into_the_queue_once(locks: Path, lock_file: Path, state: State[Any]) -> None:
    server = Server(KnownRun(state))
    resume_interrupted_runs(server)  # type: ignore[arg-type]
    resume_interrupted_runs(server)  # type: ignore[arg-type]
    assert [taken.name for taken in server.taken] == ["Resuming"]
    assert not lock_file.exists()


def test_a_run_that_the_server_did_not_take_is_tried_again(locks: Path, lock_file: Path) -> None:
    server = Server(KnownRun(Running()), is_away=True)
    with pytest.raises(ConnectionError):
        resume_interrupted_runs(server)  # type: ignore[arg-type]
    assert interrupted_runs(locks) == [lock_file]
    server.is_away = False
    resume_interrupted_runs(server)  # type: ignore[arg-type]
    assert len(server.taken) == 1


def test_the_lock_file_of_a_run_that_has_begun_again_meanwhile_stays(locks: Path, lock_file: Path) -> None:
    def begin_again() -> None:
        fresh = locks / ".fresh"
        fresh.touch()
        fresh.replace(lock_file)

    resume_interrupted_runs(Server(KnownRun(Running()), on_taken=begin_again))  # type: ignore[arg-type]
    assert lock_file.exists()


def test_a_run_that_has_ended_or_dies_again_and_again_is_not_started_again(locks: Path, lock_file: Path) -> None:
    ended = Server(KnownRun(Completed()))
    resume_interrupted_runs(ended)  # type: ignore[arg-type]
    lock_file.touch()
    dying = Server(KnownRun(Running(), run_count=MOST_STARTS))
    resume_interrupted_runs(dying)  # type: ignore[arg-type]
    assert (ended.taken, [state.name for state in dying.taken]) == ([], ["Crashed"])
    assert interrupted_runs(locks) == []
