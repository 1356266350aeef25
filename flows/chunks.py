"""The two Prefect tasks of a chunk, their checkpoints, and what is done when a checkpoint is damaged.

A task's persisted result is small JSON that points, with sha256, to a file in the work folder. Equal keys
mean equal results: a checkpoint that verifies is used, one that does not is made anew, and only that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from prefect import task
from prefect.context import TaskRunContext
from prefect.futures import PrefectFuture

from data_contracts.checkpoint import decode_key, encode_key
from data_contracts.config import ReadingConfig
from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef, StateRef
from data_contracts.errors import BrokenChecksum, StorageUnavailable
from data_contracts.result import ChunkCheckpoint, ChunkResult
from models.zoo import load_model
from tasks import decode, encode, storage
from tasks.render import PageSource

Kind = Literal["pdf", "image", "folder"]

RESULTS_FOLDER = "results"
FEATURES_FOLDER = "features"
# Features are a cache, made again when needed: about 1 MB a page.
FEATURES_CAP_BYTES = 2_000_000_000
# A backfill starts at the nearest kept state before the page and replays from there.
KEPT_RECENT_STATES = 3
KEPT_STATE_EVERY_PAGES = 64


def _given_key(_context: TaskRunContext, parameters: dict[str, Any]) -> str:
    return str(parameters["key"])


@task(name="encode", task_run_name="encode {name}", cache_key_fn=_given_key, result_serializer="json")
def encode_task(
    key: str, name: str, source: str, kind: Kind, chunk: ChunkRef, reading: ReadingConfig, work: str
) -> dict[str, Any]:
    """Render and encode the pages of one chunk; returns a ``FeaturesRef`` as JSON."""
    model = load_model(reading)
    with PageSource(Path(source), kind, reading.render) as pages:
        return encode.encode_chunk(pages.render, chunk.page_numbers, model, work, key).model_dump(mode="json")


@task(name="decode", task_run_name="decode {name}", cache_key_fn=_given_key, result_serializer="json")
def decode_task(
    key: str,
    name: str,
    chunk: ChunkRef,
    features: Sequence[FeaturesRef],
    reading: ReadingConfig,
    previous: StateRef | None,
    work: str,
) -> dict[str, Any]:
    """Decode one chunk from ``previous``; returns a ``ChunkCheckpoint`` as JSON."""
    model = load_model(reading)
    return decode.decode_chunk(chunk, features, model, reading, previous, work, key).model_dump(mode="json")


def collectable_states(checkpoints: Sequence[ChunkCheckpoint]) -> list[StateRef]:
    """Return the states that retention gives up: all but the last three and the first past every 64 pages."""
    old = checkpoints[: max(0, len(checkpoints) - KEPT_RECENT_STATES)]
    strides = [checkpoint.page_numbers[-1] // KEPT_STATE_EVERY_PAGES for checkpoint in old]
    passes_stride = [stride > before for stride, before in zip(strides, [0, *strides], strict=False)]
    return [checkpoint.state for checkpoint, kept in zip(old, passes_stride, strict=True) if not kept]


class ChunkSteps:
    """Runs the tasks of one document's chunks.

    Invariant: what it returns has been verified: the checkpoint exists in the results folder and the bytes
    it points to have its sha256.
    """

    def __init__(
        self, document: DocumentRef, source: Path, reading: ReadingConfig, work: Path, *, fresh: bool = False
    ) -> None:
        """Bind the tasks to one document and one work folder; ``fresh`` ignores earlier checkpoints."""
        self.document = document
        self.reading = reading
        self.model = load_model(reading)
        self._source = source
        self._work = work.resolve()
        self._fresh = fresh
        self._decoded: dict[int, tuple[ChunkRef, tuple[FeaturesRef, ...], str]] = {}
        results = self._work / RESULTS_FOLDER
        results.mkdir(parents=True, exist_ok=True)
        # Keys alone decide: Prefect's own policy contains the run id and would never find an earlier run's result.
        self._encode = encode_task.with_options(
            persist_result=True, result_storage=results, cache_result_in_memory=False, refresh_cache=fresh
        )
        self._decode = decode_task.with_options(
            persist_result=True, result_storage=results, cache_result_in_memory=False, refresh_cache=fresh
        )

    def submit_encode(self, chunk: ChunkRef) -> PrefectFuture[dict[str, Any]]:
        """Start encoding ``chunk`` in a worker thread."""
        future: PrefectFuture[dict[str, Any]] = self._encode.submit(**self._encode_parameters(chunk))
        return future

    def decode(
        self, chunk: ChunkRef, features: Sequence[dict[str, Any]], earlier: Sequence[ChunkCheckpoint]
    ) -> ChunkCheckpoint:
        """Decode ``chunk`` from the state after ``earlier`` and return its verified checkpoint.

        ``features`` are the encode results of this chunk and of those its lookahead reaches into.

        Raises:
            StorageUnavailable: the checkpoint could not be written.
        """
        refs = tuple(FeaturesRef.model_validate(result) for result in features)
        checkpoint = self._decode_once(chunk, refs, earlier, fresh=self._fresh)
        if not self._holds(checkpoint.result_uri, checkpoint.result_sha256):
            checkpoint = self._decode_once(chunk, refs, earlier, fresh=True)
        return checkpoint

    def stored_result(self, checkpoint: ChunkCheckpoint) -> ChunkResult:
        """Read a chunk's result back, verified.

        Raises:
            BrokenChecksum: the file is damaged or gone.
        """
        data = storage.read_verified(str(self._work / checkpoint.result_uri), checkpoint.result_sha256)
        return ChunkResult.model_validate_json(data)

    def _decode_once(
        self, chunk: ChunkRef, refs: tuple[FeaturesRef, ...], earlier: Sequence[ChunkCheckpoint], *, fresh: bool
    ) -> ChunkCheckpoint:
        previous = earlier[-1].state if earlier else None
        key = decode_key(self.document, chunk, refs, self.reading.sha256, self.model.fingerprint, previous)
        self._decoded[chunk.chunk_number] = (chunk, refs, key)
        if fresh or not self._is_checkpointed(key):
            self._restore_features(chunk, refs)
            self._restore_state(earlier)
        decode_step = self._decode.with_options(refresh_cache=fresh)
        result = decode_step(key, self._name(chunk), chunk, refs, self.reading, previous, str(self._work))
        if not self._is_checkpointed(key):
            # Prefect calls a task completed even if its result could not be written.
            raise StorageUnavailable(
                f"the checkpoint of pages {chunk.page_numbers[0]}-{chunk.page_numbers[-1]} could not be written to "
                f"{self._work / RESULTS_FOLDER}; free disk space or check permissions, then run again"
            )
        checkpoint = ChunkCheckpoint.model_validate(result)
        self._collect_garbage([*earlier, checkpoint])
        return checkpoint

    def _collect_garbage(self, checkpoints: Sequence[ChunkCheckpoint]) -> None:
        for state in collectable_states(checkpoints):
            storage.delete(str(self._work / state.uri))
        storage.trim_folder(self._work / FEATURES_FOLDER, FEATURES_CAP_BYTES)

    def _restore_features(self, chunk: ChunkRef, refs: tuple[FeaturesRef, ...]) -> None:
        """Encode again what was collected or damaged: features are a pure function of the pages."""
        for ref in refs:
            if not self._holds(ref.uri, ref.sha256):
                wanted = chunk.model_copy(update={"page_numbers": ref.page_numbers})
                again = self._encode.with_options(refresh_cache=True)(**self._encode_parameters(wanted))
                if again["sha256"] != ref.sha256:
                    raise BrokenChecksum(
                        f"pages {ref.page_numbers[0]}-{ref.page_numbers[-1]} no longer encode to the same features "
                        f"({again['sha256'][:12]} instead of {ref.sha256[:12]}); run again with --fresh"
                    )

    def _restore_state(self, earlier: Sequence[ChunkCheckpoint]) -> None:
        """Decode again from the nearest kept state when the state to start from was collected or damaged."""
        missing = len(earlier)
        while missing and not self._holds(earlier[missing - 1].state.uri, earlier[missing - 1].state.sha256):
            missing -= 1
        for index in range(missing, len(earlier)):
            chunk, refs, key = self._decoded[earlier[index].chunk_number]
            self._restore_features(chunk, refs)
            previous = earlier[index - 1].state if index else None
            again = decode.decode_chunk(chunk, refs, self.model, self.reading, previous, str(self._work), key)
            if again.state.sha256 != earlier[index].state.sha256:
                raise BrokenChecksum(
                    f"pages {chunk.page_numbers[0]}-{chunk.page_numbers[-1]} no longer decode to the same state; "
                    "run again with --fresh"
                )

    def _encode_parameters(self, chunk: ChunkRef) -> dict[str, Any]:
        return {
            "key": encode_key(self.document, chunk, self.reading.sha256, self.model.fingerprint),
            "name": self._name(chunk),
            "source": str(self._source),
            "kind": self.document.kind,
            "chunk": chunk,
            "reading": self.reading,
            "work": str(self._work),
        }

    def _name(self, chunk: ChunkRef) -> str:
        return f"{self.document.document_id} pages {chunk.page_numbers[0]}-{chunk.page_numbers[-1]}"

    def _is_checkpointed(self, key: str) -> bool:
        return (self._work / RESULTS_FOLDER / key).exists()

    def _holds(self, uri: str, sha256: str) -> bool:
        return storage.exists_with_sha256(str(self._work / uri), sha256)
