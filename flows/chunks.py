"""The two Prefect tasks of a chunk, their checkpoints, and what is done when a checkpoint is damaged.

A checkpoint is small JSON that points, with sha256, to a file beside it (``tasks/checkpoint.py``). Equal keys
mean equal results: a checkpoint that verifies is used, one that does not is made anew, and only that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture

from data_contracts.checkpoint import decode_key, encode_key
from data_contracts.config import ReadingConfig
from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef, StateRef
from data_contracts.errors import BrokenChecksum
from data_contracts.result import ChunkCheckpoint, ChunkResult
from models.zoo import load_model
from tasks import decode, encode, storage
from tasks.checkpoint import read_checkpoint, write_checkpoint
from tasks.render import PageSource

Kind = Literal["pdf", "image", "folder"]

FEATURES_FOLDER = "features"
# Features are a cache, made again when needed: about 1 MB a page.
FEATURES_CAP_BYTES = 2_000_000_000
# A backfill starts at the nearest kept state before the page and replays from there.
KEPT_RECENT_STATES = 3
KEPT_STATE_EVERY_PAGES = 64


@task(name="encode", task_run_name="encode {name}", tags={"chunk"}, cache_policy=NO_CACHE)
def encode_task(
    key: str, name: str, source: str, kind: Kind, chunk: ChunkRef, reading: ReadingConfig, root: str
) -> FeaturesRef:
    """Render and encode the pages of one chunk."""
    model = load_model(reading)
    with PageSource(Path(source), kind, reading.render) as pages:
        features = encode.encode_chunk(pages.render, chunk.page_numbers, model, root, key)
    write_checkpoint(root, key, features)
    return features


@task(name="decode", task_run_name="decode {name}", tags={"chunk"}, cache_policy=NO_CACHE)
def decode_task(
    key: str,
    name: str,
    chunk: ChunkRef,
    features: Sequence[FeaturesRef],
    reading: ReadingConfig,
    previous: StateRef | None,
    root: str,
) -> ChunkCheckpoint:
    """Decode one chunk from ``previous``."""
    checkpoint = decode.decode_chunk(chunk, features, load_model(reading), reading, previous, root, key)
    write_checkpoint(root, key, checkpoint)
    return checkpoint


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
        self, document: DocumentRef, source: Path, reading: ReadingConfig, root: str, *, fresh: bool = False
    ) -> None:
        """Bind the tasks to one document; ``root`` is the URI below which checkpoints lie, ``fresh`` ignores them."""
        self.document = document
        self.reading = reading
        self.model = load_model(reading)
        self._source = source
        self._root = root
        self._fresh = fresh
        self._decoded: dict[int, tuple[ChunkRef, tuple[FeaturesRef, ...], str]] = {}

    def start_encoding(self, chunk: ChunkRef) -> Callable[[], FeaturesRef]:
        """Have ``chunk`` encoded in a worker thread, unless it is; return what waits for the result."""
        key = self._encode_key(chunk)
        done = None if self._fresh else read_checkpoint(self._root, key, FeaturesRef)
        if done is not None:
            return lambda: done
        future: PrefectFuture[FeaturesRef] = encode_task.submit(**self._encode_parameters(chunk))
        return future.result

    def decode(
        self, chunk: ChunkRef, features: Sequence[FeaturesRef], earlier: Sequence[ChunkCheckpoint]
    ) -> ChunkCheckpoint:
        """Decode ``chunk`` from the state after ``earlier``, unless it is; return its verified checkpoint.

        ``features`` are those of this chunk and of those its lookahead reaches into.

        Raises:
            StorageUnavailable: the checkpoint could not be written.
        """
        refs = tuple(features)
        previous = earlier[-1].state if earlier else None
        key = decode_key(self.document, chunk, refs, self.reading.sha256, self.model.fingerprint, previous)
        self._decoded[chunk.chunk_number] = (chunk, refs, key)
        checkpoint = None if self._fresh else read_checkpoint(self._root, key, ChunkCheckpoint)
        if checkpoint is None or not self._holds(checkpoint.result_uri, checkpoint.result_sha256):
            self._restore_features(refs)
            self._restore_state(earlier)
            checkpoint = decode_task(key, self._name(chunk), chunk, refs, self.reading, previous, self._root)
        self._collect_garbage([*earlier, checkpoint])
        return checkpoint

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
                again = encode_task(**self._encode_parameters(wanted))
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
            again = decode.decode_chunk(chunk, refs, self.model, self.reading, previous, self._root, key)
            if again.state.sha256 != earlier[index].state.sha256:
                raise BrokenChecksum(
                    f"pages {chunk.page_numbers[0]}-{chunk.page_numbers[-1]} no longer decode to the same state; "
                    "run again with --fresh"
                )

    def _encode_key(self, chunk: ChunkRef) -> str:
        return encode_key(self.document, chunk, self.reading.sha256, self.model.fingerprint)

    def _encode_parameters(self, chunk: ChunkRef) -> dict[str, Any]:
        return {
            "key": self._encode_key(chunk),
            "name": self._name(chunk),
            "source": str(self._source),
            "kind": self.document.kind,
            "chunk": chunk,
            "reading": self.reading,
            "root": self._root,
        }

    def _name(self, chunk: ChunkRef) -> str:
        return f"{self.document.document_id} pages {chunk.page_numbers[0]}-{chunk.page_numbers[-1]}"

    def _place(self, uri: str) -> str:
        return storage.join(self._root, uri)

    def _holds(self, uri: str, sha256: str) -> bool:
        return storage.exists_with_sha256(self._place(uri), sha256)
