"""Tells a Prefect server, in a process of its own, what tomeflow needs there: ``python -m flows.serving.registration``.

Deployments, limits, automations; run again it changes nothing. Then it puts runs that died with an earlier
``tomeflow serve`` of this machine back into the queue: they go on from their checkpoints.
"""

from __future__ import annotations

import sys
from pathlib import Path

from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import StateType

from flows.execution.limits import create_limits
from flows.serving.automations import create_automations, expect_a_sign_of_life
from flows.serving.deployments import deploy_all
from flows.serving.resumption import resume_interrupted_runs
from flows.settings import read_settings

_RUNNING = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING])))


def register(output: str, working_folder: Path) -> None:
    """Create or renew everything, and put the runs that were interrupted into the queue."""
    settings = read_settings(output)
    with get_client(sync_client=True) as client:
        create_limits(client)
        create_automations(client, settings.webhook_url)
        deploy_all(client, output, working_folder)
        resume_interrupted_runs(client)
        for run in client.read_flow_runs(flow_run_filter=_RUNNING):
            expect_a_sign_of_life(run.id)


if __name__ == "__main__":
    register(sys.argv[1], Path(sys.argv[2]))
