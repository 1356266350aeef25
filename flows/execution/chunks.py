"""The Prefect tasks of a chunk, their checkpoints, and what is done when a checkpoint is damaged.

A checkpoint is small JSON that points, with sha256, to a file beside it (``tasks/checkpoint.py``). Equal keys
mean equal results: a checkpoint that verifies is used, one that does not is rebuilt, and only that one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture

from data_contracts.checkpoint import decode_key, encode_key
from data_contracts.config import DigitizeConfig
from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef, StateRef
from data_contracts.errors import BrokenChecksum, PageFailed, StepLost, TomeflowError
from data_contracts.result import ChunkCheckpoint, ChunkResult
from data_contracts.step_request import (
    ChunkRequest,
    DecodeRequest,
    EncodeRequest,
    FingerprintRequest,
    Scan,
    StepRequest,
)
from flows.execution.step_process import StepProcess, shared_process
from tasks import storage
from tasks.checkpoint import delete_checkpoint, read_checkpoint, write_checkpoint
from tasks.sources.stamp import require_unchanged

logger = logging.getLogger("tomeflow.digitize")
Made = TypeVar("Made")

FEATURES_FOLDER = "features"
# Features are a cache, made again when needed: about 1 MB a page.
FEATURES_CAP_BYTES = 2_000_000_000
# A backfill starts at the nearest kept state before the page and replays from there.
KEPT_RECENT_STATES = 3
KEPT_STATE_EVERY_PAGES = 64
# Before the second, third ... attempt at a chunk [s]. What passes passes in seconds (storage, memory); half as much
# again at random keeps documents that failed together from trying together.
RETRY_PAUSES_SECONDS = [2.0**attempt for attempt in range(1, 11)]
RETRY_JITTER_RATIO = 0.5


def may_pass(_task: object, _run: object, state: State[Any]) -> bool:
    """Return whether the error of a failed task says that another attempt may succeed."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, TomeflowError) and error.retryable


CHUNK_TASK: dict[str, Any] = {
    "tags": {"chunk"},
    "cache_policy": NO_CACHE,
    "retry_delay_seconds": RETRY_PAUSES_SECONDS,
    "retry_jitter_factor": RETRY_JITTER_RATIO,
    "retry_condition_fn": may_pass,
}


@task(name="encode", task_run_name="encode {name}", **CHUNK_TASK)
def encode_task(
    document: DocumentRef, name: str, config: DigitizeConfig, request: EncodeRequest, alone: bool
) -> FeaturesRef:
    """Render and encode the pages of one chunk.

    On a cluster a task is run again if its worker dies before it has handed over what is finished: then that is read.
    """
    done = read_checkpoint(request.root, request.name, FeaturesRef)
    if done is not None and storage.exists_with_sha256(storage.join(request.root, done.uri), done.sha256):
        return done
    features: FeaturesRef = _call(request, config, alone)
    require_unchanged(document, Path(request.scan.path))
    write_checkpoint(request.root, request.name, features)
    return features


@task(name="decode", task_run_name="decode {name}", **CHUNK_TASK)
def decode_task(name: str, config: DigitizeConfig, request: DecodeRequest, alone: bool) -> ChunkCheckpoint:
    """Decode one chunk."""
    checkpoint: ChunkCheckpoint = _call(request, config, alone)
    write_checkpoint(request.root, request.name, checkpoint)
    return checkpoint


@task(name="read again", task_run_name="read again {name}", **CHUNK_TASK)
def read_again_task(name: str, config: DigitizeConfig, request: ChunkRequest, alone: bool) -> Any:
    """Take one step over pages that are read again; the checkpoints stay as they are."""
    return _call(request, config, alone)


def _call(request: StepRequest, config: DigitizeConfig, alone: bool) -> Any:
    """Run a step in the process that all share, or in one of its own."""
    if not alone:
        return shared_process().call(request, config.step_timeout_seconds)
    with StepProcess() as process:
        return process.call(request, config.step_timeout_seconds)


def _load(config: DigitizeConfig) -> str:
    """Load the model and return its fingerprint; a process lost meanwhile is started again, as it is for a chunk."""
    request = FingerprintRequest("", config.reading)
    for pause_seconds in RETRY_PAUSES_SECONDS[: config.chunk_retries]:
        try:
            return str(_call(request, config, alone=False))
        except StepLost as error:
            logger.warning("the model was not loaded; trying again in %.0f s: %s", pause_seconds, error)
            time.sleep(pause_seconds)
    return str(_call(request, config, alone=False))


def read_on_without_bad_pages(first: Callable[[], Made], again: Callable[[dict[int, str]], Made]) -> Made:
    """Return what ``first`` makes; if a page makes it fail for good, what ``again`` makes without that page.

    ``again`` runs in a process of its own: in a shared one, the page in work when it dies may be innocent.

    Raises:
        TomeflowError: the failure is not that of a page.
    """
    try:
        return first()
    except PageFailed as error:
        logger.warning("%s; trying page by page", error)
    isolated: dict[int, str] = {}
    while True:
        try:
            return again(isolated)
        except PageFailed as error:
            if error.page_number is None or error.page_number in isolated:
                raise
            isolated = {**isolated, error.page_number: error.message}


def collectable_states(checkpoints: Sequence[ChunkCheckpoint]) -> list[StateRef]:
    """Return the states that retention gives up: all but the last three and the first past every 64 pages."""
    old = checkpoints[: max(0, len(checkpoints) - KEPT_RECENT_STATES)]
    strides = [checkpoint.page_numbers[-1] // KEPT_STATE_EVERY_PAGES for checkpoint in old]
    passes_stride = [stride > before for stride, before in zip(strides, [0, *strides], strict=False)]
    return [checkpoint.state for checkpoint, kept in zip(old, passes_stride, strict=True) if not kept]


class ChunkSteps:
    """Runs the tasks of one document's chunks, those that no earlier run has finished.

    Invariant: what it returns has been verified: the checkpoint is stored and the bytes it points to have
    its sha256.
    """

    def __init__(
        self, document: DocumentRef, source: Path, config: DigitizeConfig, root: str, *, fresh: bool = False
    ) -> None:
        """Bind the tasks to one document; ``root`` is the URI below which checkpoints lie, ``fresh`` ignores them.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            StepLost: the process died or was silent each time that it loaded the model.
        """
        self.document = document
        self.reading = config.reading
        self.fingerprint = _load(config)
        self._config = config
        self.scan: Final = Scan(str(source), document.kind, config.render_timeout_seconds)
        self._root = root
        self._fresh = fresh
        self._decoded: dict[int, tuple[ChunkRef, tuple[FeaturesRef, ...], str]] = {}

    def start_encoding(self, chunk: ChunkRef) -> Callable[[], FeaturesRef]:
        """Have ``chunk`` encoded in a worker thread, unless it is; return what waits for the result."""
        request = self._encode_request(chunk)
        if self._fresh:
            delete_checkpoint(self._root, request.name)
        elif (done := read_checkpoint(self._root, request.name, FeaturesRef)) is not None:
            return lambda: done
        step = encode_task.with_options(retries=self._config.chunk_retries)
        future: PrefectFuture[FeaturesRef] = step.submit(
            self.document, self._name(chunk), self._config, request, alone=False
        )
        return lambda: read_on_without_bad_pages(
            future.result,
            lambda isolated: encode_task(
                self.document, self._name(chunk), self._config, request.without(isolated), alone=True
            ),
        )

    def decode(
        self, chunk: ChunkRef, features: Sequence[FeaturesRef], earlier: Sequence[ChunkCheckpoint]
    ) -> tuple[ChunkCheckpoint, ChunkResult]:
        """Decode ``chunk`` from the state after ``earlier``, unless it is; return its checkpoint and what was read.

        ``features`` are those of this chunk and of those its lookahead reaches into. The result is fetched once, which
        is what verifies it.

        Raises:
            StorageUnavailable: the checkpoint could not be written.
            BrokenChecksum: the result that was written just now is damaged or gone.
        """
        refs = tuple(features)
        previous = earlier[-1].state if earlier else None
        key = decode_key(self.document, chunk, refs, self.reading.sha256, self.fingerprint, previous)
        self._decoded[chunk.chunk_number] = (chunk, refs, key)
        checkpoint = None if self._fresh else read_checkpoint(self._root, key, ChunkCheckpoint)
        result = None if checkpoint is None else self._whole_result(checkpoint)
        if checkpoint is None or result is None:
            self._restore_features(refs)
            self._restore_state(earlier)
            checkpoint = self._decode_anew(chunk, refs, previous, key)
            result = self.stored_result(checkpoint)
        self._collect_garbage([*earlier, checkpoint])
        return checkpoint, result

    def _decode_anew(
        self, chunk: ChunkRef, refs: tuple[FeaturesRef, ...], previous: StateRef | None, key: str
    ) -> ChunkCheckpoint:
        request = DecodeRequest(key, self.reading, chunk, self._root, refs, previous)
        step = decode_task.with_options(retries=self._config.chunk_retries)
        return read_on_without_bad_pages(
            lambda: step(self._name(chunk), self._config, request, alone=False),
            lambda isolated: decode_task(self._name(chunk), self._config, request.without(isolated), alone=True),
        )

    def take_again(self, request: ChunkRequest) -> Any:
        """Return what a step over pages that are read again makes: bounded as the others, and kept in no checkpoint."""
        step = read_again_task.with_options(retries=self._config.chunk_retries)
        name = self._name(request.chunk)
        return read_on_without_bad_pages(
            lambda: step(name, self._config, request, alone=False),
            lambda isolated: read_again_task(name, self._config, request.without(isolated), alone=True),
        )

    def _whole_result(self, checkpoint: ChunkCheckpoint) -> ChunkResult | None:
        """Return a chunk's result; None if it is damaged or gone."""
        try:
            return self.stored_result(checkpoint)
        except BrokenChecksum:
            return None

    def stored_result(self, checkpoint: ChunkCheckpoint) -> ChunkResult:
        """Read a chunk's result back, verified.

        Raises:
            BrokenChecksum: the file is damaged or gone.
        """
        data = storage.read_verified(self._place(checkpoint.result_uri), checkpoint.result_sha256)
        return ChunkResult.model_validate_json(data)

    def _collect_garbage(self, checkpoints: Sequence[ChunkCheckpoint]) -> None:
        for state in collectable_states(checkpoints):
            storage.delete(self._place(state.uri))
        storage.trim_folder(self._place(FEATURES_FOLDER), FEATURES_CAP_BYTES)

    def _restore_features(self, refs: Sequence[FeaturesRef]) -> None:
        """Encode again what was collected or damaged: features are a pure function of the pages."""
        for ref in refs:
            if not self._holds(ref.uri, ref.sha256):
                wanted = ChunkRef(chunk_number=1, page_numbers=ref.page_numbers)
                step = encode_task.with_options(retries=self._config.chunk_retries)
                request = replace(self._encode_request(wanted), isolated=ref.isolated)
                again = step(self.document, self._name(wanted), self._config, request, alone=False)
                if again.sha256 != ref.sha256:
                    raise BrokenChecksum(
                        f"pages {ref.page_numbers[0]}-{ref.page_numbers[-1]} no longer encode to the same features "
                        f"({again.sha256[:12]} instead of {ref.sha256[:12]}); run again with --fresh"
                    )

    def _restore_state(self, earlier: Sequence[ChunkCheckpoint]) -> None:
        """Decode again from the nearest kept state when the state to start from was collected or damaged."""
        missing = len(earlier)
        while missing and not self._holds(earlier[missing - 1].state.uri, earlier[missing - 1].state.sha256):
            missing -= 1
        for index in range(missing, len(earlier)):
            chunk, refs, key = self._decoded[earlier[index].chunk_number]
            self._restore_features(refs)
            previous = earlier[index - 1].state if index else None
            request = DecodeRequest(
                key, self.reading, chunk, self._root, refs, previous, isolated=earlier[index].isolated
            )
            again = _call(request, self._config, alone=False)
            if again.state.sha256 != earlier[index].state.sha256:
                raise BrokenChecksum(
                    f"pages {chunk.page_numbers[0]}-{chunk.page_numbers[-1]} no longer decode to the same state; "
                    "run again with --fresh"
                )

    def _encode_request(self, chunk: ChunkRef) -> EncodeRequest:
        key = encode_key(self.document, chunk, self.reading.sha256, self.fingerprint)
        return EncodeRequest(key, self.reading, chunk, self._root, self.scan)

    def _name(self, chunk: ChunkRef) -> str:
        return f"{self.document.document_id} pages {chunk.page_numbers[0]}-{chunk.page_numbers[-1]}"

    def _place(self, uri: str) -> str:
        return storage.join(self._root, uri)

    def _holds(self, uri: str, sha256: str) -> bool:
        return storage.exists_with_sha256(self._place(uri), sha256)
