"""Tells a Prefect server, in a process of its own, what tomeflow needs there: ``python -m flows.registration``.

Deployments, limits, automations; run again it changes nothing. Then it puts runs that died with an earlier
``tomeflow serve`` of this machine back into the queue: they go on from their checkpoints.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed, Scheduled

from flows.automations import create_automations, expect_a_sign_of_life
from flows.deployments import deploy_all
from flows.limits import create_limits
from flows.running_marks import interrupted_runs
from flows.settings import marks_folder, read_settings

# A run that dies again and again may be what brings the machine down.
MOST_STARTS = 5

_RUNNING = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING])))


def register(output: str, working_folder: Path, server_started: datetime) -> None:
    """Create or renew everything, and put the runs that were interrupted before ``server_started`` into the queue."""
    settings = read_settings(output)
    with get_client(sync_client=True) as client:
        create_limits(client)
        create_automations(client, settings.webhook_url)
        deploy_all(client, output, working_folder)
        for mark in interrupted_runs(marks_folder()):
            _resume(client, UUID(mark.name), server_started)
            mark.unlink()
        for run in client.read_flow_runs(flow_run_filter=_RUNNING):
            expect_a_sign_of_life(run.id)


def _resume(client: SyncPrefectClient, flow_run_id: UUID, server_started: datetime) -> None:
    try:
        run = client.read_flow_run(flow_run_id)
    except ObjectNotFound:
        return
    if run.state is None or not _was_interrupted(run.state, server_started):
        return
    if run.state.type is StateType.CANCELLING:
        state: State[Any] = Cancelled()
    elif run.run_count >= MOST_STARTS:
        state = Crashed(message=f"interrupted {run.run_count} times; its finished chunks are kept, run it again")
    else:
        state = Scheduled(name="Resuming", message="interrupted; goes on from its checkpoints")
    client.set_flow_run_state(flow_run_id, state, force=True)


def _was_interrupted(state: State[Any], server_started: datetime) -> bool:
    """Whether the run was alive when its server went away; this server may have noticed its silence already."""
    return not state.is_final() or (state.is_crashed() and state.timestamp > server_started)


if __name__ == "__main__":
    register(sys.argv[1], Path(sys.argv[2]), datetime.fromisoformat(sys.argv[3]))
