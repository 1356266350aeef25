"""Puts runs of this machine that died without a word back into the queue: ``python -m flows.serving.resumption``.

They go on from their checkpoints. A process of its own, so that ``tomeflow serve`` need not hold Prefect in memory.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed, Scheduled

from flows.serving.liveness_locks import interrupted_runs
from flows.settings import locks_folder

# A run that dies again and again may be what brings the machine down.
MOST_STARTS = 5


def resume_interrupted_runs(client: SyncPrefectClient) -> None:
    """Put the runs into the queue whose processes are gone; a lock file goes only when the server has taken that."""
    for lock_file in interrupted_runs(locks_folder()):
        flow_run_id = UUID(lock_file.name)
        with suppress(FileNotFoundError):  # it ended in order just now
            dead = lock_file.stat()
            if (state := _state_to_come(client, flow_run_id)) is not None:
                client.set_flow_run_state(flow_run_id, state, force=True)
            if lock_file.stat().st_ino == dead.st_ino:  # else it has begun again, with a lock file of its own
                lock_file.unlink()


def _state_to_come(client: SyncPrefectClient, flow_run_id: UUID) -> State[Any] | None:
    """Return the state that the run is to have now; None if it had ended, or is not known."""
    try:
        run = client.read_flow_run(flow_run_id)
    except ObjectNotFound:
        return None
    if run.state is None or not _was_interrupted(run.state):
        return None
    if run.state.type is StateType.CANCELLING:
        return Cancelled()
    if run.run_count >= MOST_STARTS:
        return Crashed(message=f"interrupted {run.run_count} times; its finished chunks are kept, run it again")
    return Scheduled(name="Resuming", message="interrupted; goes on from its checkpoints")


def _was_interrupted(state: State[Any]) -> bool:
    """Whether the run was alive until its process went; worker or server may have noticed that already."""
    return not state.is_final() or state.is_crashed()


if __name__ == "__main__":
    with get_client(sync_client=True) as client:
        resume_interrupted_runs(client)
