"""Read single pages of a document again, in the memory that they would have had: replay from a kept state.

Pages on the way are read as they were, to bring memory to where the asked pages need it; their readings are
dropped. The checkpoints on the way say whether memory is the one of then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from data_contracts.config import ReadingConfig
from data_contracts.document import ChunkRef
from data_contracts.errors import BrokenChecksum
from data_contracts.result import ChunkCheckpoint, PageResult
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.memory.state import ReferenceState, load_state, state_bytes
from models.sr_swa.pages import EncodedPage, FailedPage
from models.sr_swa.pool import borrowed_slots
from models.sr_swa.protocol import OcrModel
from tasks import storage

Encode = Callable[[int], EncodedPage | FailedPage]


@dataclass(frozen=True)
class Replay:
    """Chunks ``first_chunk`` to ``last_chunk`` (indices) are decoded again for ``page_numbers``, ascending."""

    first_chunk: int
    last_chunk: int
    page_numbers: tuple[int, ...]


def plan_replays(
    chunks: Sequence[ChunkRef], page_numbers: Collection[int], is_kept: Callable[[int], bool]
) -> list[Replay]:
    """Return replays that read every one of ``page_numbers`` once, each from the nearest kept state before it.

    ``is_kept`` says whether the state after the chunk of that index is there. A page goes on from the replay
    before it where its own would begin no later than one chunk after that ends: then no state is nearer.
    """
    replays: list[Replay] = []
    for index, chunk in enumerate(chunks):
        wanted = tuple(number for number in chunk.page_numbers if number in page_numbers)
        if not wanted:
            continue
        start = next((before for before in range(index, 0, -1) if is_kept(before - 1)), 0)
        if replays and start <= replays[-1].last_chunk + 1:
            previous = replays.pop()
            replays.append(Replay(previous.first_chunk, index, previous.page_numbers + wanted))
        else:
            replays.append(Replay(start, index, wanted))
    return replays


def reread(
    replay: Replay,
    chunks: Sequence[ChunkRef],
    checkpoints: Sequence[ChunkCheckpoint],
    changed: Collection[int],
    encode: Encode,
    model: OcrModel,
    reading: ReadingConfig,
    root: str,
) -> Iterator[PageResult]:
    """Yield the readings of ``replay.page_numbers``, in order.

    ``encode`` gives any selected page as it is to be read now; from the first of the ``changed`` pages on, memory
    is another one than that of the checkpoints.

    Raises:
        BrokenChecksum: the state to start from is damaged, or pages before any change no longer lead to the same one.
    """
    selected = [number for chunk in chunks[replay.first_chunk :] for number in chunk.page_numbers]
    state = _kept_state(replay.first_chunk, checkpoints, model, reading, root)
    for index in range(replay.first_chunk, replay.last_chunk + 1):
        numbers = chunks[index].page_numbers
        coming = selected[selected.index(numbers[0]) :]
        last = numbers[-1] if index < replay.last_chunk else replay.page_numbers[-1]
        with borrowed_slots(model, reading.sr_swa) as slots:
            decoder = ContinuousDecoder(model, reading.sr_swa, state, config_sha256=reading.sha256, slots=slots)
            for page in decoder.decode(map(encode, coming), last):
                if page.page_number in replay.page_numbers:
                    yield page
            state = decoder.state()
        seen_ahead = coming[: len(numbers) + reading.sr_swa.lookahead_pages]
        is_changed = any(number in changed for number in selected[: selected.index(seen_ahead[-1]) + 1])
        if index < replay.last_chunk and not is_changed:
            _check_state(state, checkpoints[index])


def read_alone(page: EncodedPage | FailedPage, model: OcrModel, reading: ReadingConfig) -> PageResult:
    """Return the reading of one page without the memory of its document: another model cannot use that."""
    with borrowed_slots(model, reading.sr_swa) as slots:
        decoder = ContinuousDecoder(model, reading.sr_swa, config_sha256=reading.sha256, slots=slots)
        (result,) = decoder.decode([page])
    return result


def _kept_state(
    first_chunk: int, checkpoints: Sequence[ChunkCheckpoint], model: OcrModel, reading: ReadingConfig, root: str
) -> ReferenceState | None:
    if not first_chunk:
        return None
    kept = checkpoints[first_chunk - 1].state
    data = storage.read_verified(storage.join(root, kept.uri), kept.sha256)
    return load_state(data, fingerprint=model.fingerprint, config_sha256=reading.sha256)


def _check_state(state: ReferenceState, checkpoint: ChunkCheckpoint) -> None:
    if storage.sha256_bytes(state_bytes(state)) != checkpoint.state.sha256:
        numbers = checkpoint.page_numbers
        raise BrokenChecksum(
            f"pages {numbers[0]}-{numbers[-1]} no longer lead to the memory they led to, so pages after them cannot be "
            "read as they would have been. If one of them failed, name it as well (--pages), or run with --fresh"
        )
