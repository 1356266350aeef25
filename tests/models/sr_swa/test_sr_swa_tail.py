from __future__ import annotations

import pytest
import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.tail import RECENT_IDS, OutputTail

GEOMETRY = Geometry(layers=1, kv_heads=1, head_dim=2, page_tokens=1, rope_theta=None)
NO_LIMIT = 10**6


def write(tail: OutputTail, numbers: range) -> None:
    for number in numbers:
        entry = torch.full((1, 1, 2), float(number))
        tail.buffer.write_layer(0, tail.append(), entry, entry)


def held(tail: OutputTail) -> list[int]:
    return sorted(int(number) for number in tail.block.keys[0, 0, :, 0])


@pytest.mark.parametrize("tail_tokens", [1, 2, 5, 8])
def test_the_tail_holds_exactly_the_last_outputs_across_pages(tail_tokens: int) -> None:
    tail = OutputTail(GEOMETRY, tail_tokens)
    for output in range(30):
        if output % 7 == 0:
            tail.begin_page(NO_LIMIT)
        write(tail, range(output, output + 1))
        assert held(tail) == list(range(max(0, output + 1 - tail_tokens), output + 1))
        assert tail.buffer.nbytes == tail_tokens * GEOMETRY.bytes_per_token


def test_without_a_tail_an_output_still_sees_itself() -> None:
    tail = OutputTail(GEOMETRY, 0)
    write(tail, range(5))
    assert held(tail) == [4]


@pytest.mark.parametrize("carried", [0, 2, 5, 9])
@pytest.mark.parametrize("written", [0, 1, 3, 4, 5, 12])
def test_a_page_taken_back_leaves_what_it_has_not_overwritten(carried: int, written: int) -> None:
    tail = OutputTail(GEOMETRY, 5)
    write(tail, range(carried))
    tail.begin_page(NO_LIMIT)
    write(tail, range(carried, carried + written))
    tail.rewind_page()
    assert held(tail) == list(range(max(0, carried + written - 5), carried))
    write(tail, range(carried, carried + 7))
    assert held(tail) == list(range(carried + 2, carried + 7))


def test_a_rewound_tail_is_one_piece_at_every_step() -> None:
    tail = OutputTail(GEOMETRY, 5)
    write(tail, range(7))
    tail.begin_page(NO_LIMIT)
    write(tail, range(7, 9))
    tail.rewind_page()
    for output in range(7, 20):
        write(tail, range(output, output + 1))
        assert held(tail) == list(range(max(4, output + 1 - 5), output + 1))


def test_the_frame_begins_anew_before_it_gets_too_long() -> None:
    tail = OutputTail(GEOMETRY, 4)
    offsets = []
    for page in range(20):
        tail.begin_page(10)
        offsets.append(tail.frame_offset)
        write(tail, range(3 * page, 3 * page + 3))
    assert max(offsets) <= 10
    assert offsets.count(4) >= 2


def test_only_the_last_ids_are_remembered() -> None:
    tail = OutputTail(GEOMETRY, 4)
    tail.remember(range(1500))
    tail.remember([7])
    assert list(tail.recent_ids) == [*range(1500 - RECENT_IDS + 1, 1500), 7]


@pytest.mark.parametrize("outputs", [0, 2, 5, 13])
def test_a_restored_tail_continues_at_the_same_place_of_the_ring(outputs: int) -> None:
    tail, restored = OutputTail(GEOMETRY, 5), OutputTail(GEOMETRY, 5)
    write(tail, range(outputs))
    tail.begin_page(NO_LIMIT)
    tail.remember(range(outputs))
    restored.restore(*tail.snapshot())
    for both in (tail, restored):
        both.begin_page(NO_LIMIT)
        write(both, range(outputs, outputs + 3))
    assert torch.equal(restored.block.keys, tail.block.keys)
    assert (restored.recent_ids, restored.frame_offset) == (tail.recent_ids, tail.frame_offset)
