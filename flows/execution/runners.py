"""Where the encoding of pages runs: in threads of the run's own process, or on a Dask or Ray cluster.

A task is a chunk, so that what a cluster costs for each task (0.1 to 0.3 s) is shared by many pages, and a worker
that dies costs its chunk, which another does again. Sources, checkpoints and features must lie where every worker sees
them. Dask and Ray are extras, imported only when asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from prefect.context import FlowRunContext
from prefect.task_runners import TaskRunner

from data_contracts.errors import ConfigError
from flows.settings import cluster_address

Runner = Literal["threads", "dask", "ray"]

# Chunks encoded beyond the one being decoded: enough that decoding never waits. Two threads are kept busy by two; a
# cluster has room for more, as far as the features of so many chunks lie on disk.
ENCODE_AHEAD_CHUNKS: dict[Runner, int] = {"threads": 2, "dask": 32, "ray": 32}

# Of a cluster that the run starts for itself on this machine, where no address is given.
LOCAL_WORKERS = 2


@contextmanager
def encoding_on(runner: Runner) -> Iterator[None]:
    """Have tasks that are submitted in the block run on ``runner``; on a flow's own threads nothing changes.

    Raises:
        ConfigError: the extra is not installed.
    """
    context = FlowRunContext.get()
    if runner == "threads" or context is None:
        yield
        return
    with _task_runner(runner) as task_runner, context.model_copy(update={"task_runner": task_runner}):
        yield


def _task_runner(runner: Runner) -> TaskRunner[Any]:
    try:
        return _dask(cluster_address("dask")) if runner == "dask" else _ray(cluster_address("ray"))
    except ImportError as error:
        raise ConfigError(f"runner {runner} needs an extra: pip install 'tomeflow[{runner}]' ({error}).") from error


def _dask(address: str | None) -> TaskRunner[Any]:
    from prefect_dask.task_runners import DaskTaskRunner

    logging.getLogger("distributed").setLevel(logging.WARNING)
    # One thread a worker: a task's own child process computes. No dashboard: nothing listens on a port unasked.
    local = {"n_workers": LOCAL_WORKERS, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    runner: TaskRunner[Any] = DaskTaskRunner(address=address) if address else DaskTaskRunner(cluster_kwargs=local)
    return runner


def _ray(address: str | None) -> TaskRunner[Any]:
    from prefect_ray.task_runners import RayTaskRunner

    local = {"num_cpus": LOCAL_WORKERS, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    runner: TaskRunner[Any] = RayTaskRunner(address=address, init_kwargs=None if address else local)
    return runner
