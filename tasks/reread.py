"""Read single pages of a document again, in the memory that they would have had: replay from a kept state.

Pages on the way are read as they were, to bring memory to where the asked pages need it; their readings are
dropped. The checkpoints on the way say whether memory is the one of then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from data_contracts.document import ChunkRef, StateRef
from data_contracts.errors import BrokenChecksum
from data_contracts.result import ChunkCheckpoint

ReadChunk = Callable[[ChunkRef, tuple[int, ...], StateRef | None], ChunkCheckpoint]
"""Reads the pages of a chunk from a state, with all the given pages in sight; says in ``isolated`` which were lost."""


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
    checkpoints: Sequence[ChunkCheckpoint],
    changed: Collection[int],
    lookahead_pages: int,
    read_chunk: ReadChunk,
) -> Iterator[ChunkCheckpoint]:
    """Yield what ``read_chunk`` makes of each chunk of ``replay``, in order; the last ends with the last page asked.

    From the first of the ``changed`` pages on, memory is another one than that of the ``checkpoints``.

    Raises:
        BrokenChecksum: pages before any change no longer lead to the same memory, or one of them cannot be read.
    """
    changed = set(changed)
    coming = [number for checkpoint in checkpoints[replay.first_chunk :] for number in checkpoint.page_numbers]
    first = coming[0]
    state = checkpoints[replay.first_chunk - 1].state if replay.first_chunk else None
    for then in checkpoints[replay.first_chunk : replay.last_chunk + 1]:
        numbers = tuple(number for number in then.page_numbers if number <= replay.page_numbers[-1])
        seen = tuple(coming[: len(numbers) + lookahead_pages])
        chunk = ChunkRef(chunk_number=then.chunk_number, page_numbers=numbers)
        again = read_chunk(chunk, seen, state)
        changed |= _lost(again, {*changed, *replay.page_numbers})
        yield again
        if numbers[-1] != replay.page_numbers[-1] and not any(first <= n <= seen[-1] for n in changed):
            _check_state(again.state, then)
        state, coming = again.state, coming[len(numbers) :]


def _lost(again: ChunkCheckpoint, may_change: Collection[int]) -> set[int]:
    """Return the pages that could not be read; only one that ``may_change`` may be lost."""
    if others := sorted(set(again.isolated) - set(may_change)):
        raise BrokenChecksum(
            f"page {others[0]} has to be read again for the memory of the pages after it, and could not be: "
            f"{again.isolated[others[0]].rstrip('. ')}. Name it as well (--pages): they are then read without it"
        )
    return set(again.isolated)


def _check_state(state: StateRef, checkpoint: ChunkCheckpoint) -> None:
    if state.sha256 != checkpoint.state.sha256:
        numbers = checkpoint.page_numbers
        raise BrokenChecksum(
            f"pages {numbers[0]}-{numbers[-1]} no longer lead to the memory they led to, so pages after them cannot be "
            "read as they would have been. If one of them failed, name it as well (--pages), or run with --fresh"
        )
