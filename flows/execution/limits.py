"""Who must wait for whom, across processes and machines: limits that ``tomeflow serve`` creates on its server.

Held for a document or a step of seconds, never for a page: a hand-over takes a good half second. A holder that
dies loses its slot when its lease ends. Where no server knows the limit (``tomeflow run``), nobody waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound

from data_contracts.config import ReadingConfig

GPU = "tomeflow-gpu"
WAREHOUSE_WRITER = "tomeflow-warehouse-writer"

# How long the slot of a dead holder stays taken; a living one renews it.
LEASE_S = 60.0


def create_limits(client: SyncPrefectClient) -> None:
    """Create the limits; one that is there keeps the number that a person gave it."""
    for name in (GPU, WAREHOUSE_WRITER):
        try:
            client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))


@contextmanager
def slot(name: str) -> Iterator[None]:
    """Hold one slot of the limit ``name`` for the block; wait for it as long as it takes."""
    with concurrency(name, lease_duration=LEASE_S):
        yield


@contextmanager
def gpu_slot(reading: ReadingConfig) -> Iterator[None]:
    """Hold the GPU if this reading may compute on one; the compact model never does."""
    with slot(GPU) if reading.model != "compact" and reading.vlm.device in ("auto", "cuda") else nullcontext():
        yield
