"""What ``tomeflow serve`` offers in the UI: the flows, as deployments of one work pool of local processes.

``deployments/prefect.yaml`` says the same to ``prefect deploy``, for servers and pools of your own.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.client.schemas.responses import DeploymentResponse
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from data_contracts.errors import ConfigError

WORK_POOL = "tomeflow"
WORKER_TYPE = "process"
FLOW_PROCESS = "flows.serving.flow_process"


@dataclass(frozen=True)
class FlowDeployment:
    """A flow as a person starts it; a schedule (``cron``, ``timezone``) is created paused, for a person to start."""

    name: str
    entrypoint: str
    description: str
    tags: tuple[str, ...]
    cron: str | None = None
    timezone: str = "UTC"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def flow(self) -> Flow[..., Any]:
        """Import the flow."""
        module, name = self.entrypoint.rsplit(".", 1)
        flow: Flow[..., Any] = getattr(import_module(module), name)
        return flow

    def deploy(self, client: SyncPrefectClient, output: str) -> None:
        """Create or renew the deployment; schedules, parameters and limit of runs stay as a person set them."""
        flow = self.flow()
        before = self._before(client, flow.name)
        schedule = Cron(self.cron, timezone=self.timezone, active=False) if self.cron else None
        deployment = RunnerDeployment.from_flow(
            flow,
            self.name,
            schedule=schedule,
            parameters={**self.parameters, **(before.parameters if before else {}), "output": output},
            concurrency_limit=_limit_of_runs(before),
            description=self.description,
            tags=list(self.tags),
            work_pool_name=WORK_POOL,
            job_variables={},  # of an older version: the command; the pool says it now
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        deployment.apply(schedules=[] if before else None)  # empty: leave them as they are

    def _before(self, client: SyncPrefectClient, flow_name: str) -> DeploymentResponse | None:
        try:
            return client.read_deployment_by_name(f"{flow_name}/{self.name}")
        except ObjectNotFound:
            return None


def _limit_of_runs(before: DeploymentResponse | None) -> ConcurrencyLimitConfig | None:
    if before is None or before.global_concurrency_limit is None:
        return None
    how = before.concurrency_options.model_dump() if before.concurrency_options else {}
    return ConcurrencyLimitConfig(limit=before.global_concurrency_limit.limit, **how)


DEPLOYMENTS = (
    FlowDeployment(
        name="digitize",
        entrypoint="flows.digitize.digitize_document",
        description="Digitize one document: a PDF, an image, or a folder of page images.",
        tags=("tomeflow",),
    ),
    FlowDeployment(
        name="digitize-several",
        entrypoint="flows.digitize.digitize_collection",
        description="Digitize several documents side by side; one that fails never stops another.",
        tags=("tomeflow",),
    ),
    FlowDeployment(
        name="ingest",
        entrypoint="flows.ingest_archive.ingest_archive",
        description="Digitize what is new or changed in an archive; start the schedule to do so every night.",
        tags=("tomeflow",),
        cron="0 2 * * *",
        parameters={"prefix": "inbox"},
    ),
    FlowDeployment(
        name="backfill",
        entrypoint="flows.backfill.backfill",
        description="Read again what failed, was cut off or quarantined, and patch what was published.",
        tags=("tomeflow",),
    ),
)


def job_template(working_folder: Path) -> dict[str, Any]:
    """Return how a worker starts a run: always the same, nothing of it left to whoever asks for the run.

    No ``env`` here: Prefect would merge into it what a run brings, though no variable is declared.
    """
    return {
        "job_configuration": {
            # On the search path, where every worker of ours has its own python first: further machines may have it
            # elsewhere.
            "command": shlex.join([Path(sys.executable).name, "-m", FLOW_PROCESS]),
            "working_dir": str(working_folder),
            "stream_output": True,
        },
        "variables": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def create_work_pool(client: SyncPrefectClient, working_folder: Path) -> None:
    """Create the work pool, or have its runs started as this version does; its limit stays as a person set it.

    Raises:
        ConfigError: there is one by that name for another type of worker.
    """
    template = job_template(working_folder)
    try:
        pool = client.read_work_pool(WORK_POOL)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=WORK_POOL, type=WORKER_TYPE, base_job_template=template))
        return
    if pool.type != WORKER_TYPE:
        raise ConfigError(f"the work pool {WORK_POOL} is of type {pool.type}, not {WORKER_TYPE}: delete it in the UI.")
    if pool.base_job_template != template:
        client.update_work_pool(WORK_POOL, WorkPoolUpdate(base_job_template=template))


def deploy_all(client: SyncPrefectClient, output: str, working_folder: Path) -> None:
    """Create or renew the work pool and every deployment; relative sources start at ``working_folder``."""
    create_work_pool(client, working_folder)
    for deployment in DEPLOYMENTS:
        deployment.deploy(client, output)
