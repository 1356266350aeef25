"""Retention of states: bounded, and always near enough to start from."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from data_contracts.document import StateRef
from data_contracts.result import ChunkCheckpoint
from flows.execution.chunks import KEPT_STATE_EVERY_PAGES, collectable_states


def checkpoints(chunk_pages: int, chunks: int) -> list[ChunkCheckpoint]:
    made = []
    for number in range(1, chunks + 1):
        pages = tuple(range((number - 1) * chunk_pages + 1, number * chunk_pages + 1))
        state = StateRef(uri=f"s/{number}", sha256="0", size_bytes=1, next_page_number=pages[-1] + 1)
        made.append(
            ChunkCheckpoint(chunk_number=number, page_numbers=pages, result_uri="r", result_sha256="0", state=state)
        )
    return made


@given(chunk_pages=st.integers(1, 100), chunks=st.integers(0, 120))
def test_kept_states_are_few_recent_and_never_further_apart_than_the_stride(chunk_pages: int, chunks: int) -> None:
    done = checkpoints(chunk_pages, chunks)
    gone = {state.uri for state in collectable_states(done)}
    kept = [checkpoint.state for checkpoint in done if checkpoint.state.uri not in gone]
    assert [state.uri for state in kept[-3:]] == [checkpoint.state.uri for checkpoint in done[-3:]]
    assert len(kept) <= 3 + chunks * chunk_pages // KEPT_STATE_EVERY_PAGES
    starts = [1, *(state.next_page_number for state in kept)]
    assert all(b - a <= KEPT_STATE_EVERY_PAGES + chunk_pages for a, b in pairwise(starts))
