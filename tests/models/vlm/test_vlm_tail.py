"""The tail with room for drafts: what is taken back is as if it had never been written."""

from __future__ import annotations

import random

import pytest
import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.tail import OutputTail

GEOMETRY = Geometry(layers=1, kv_heads=1, head_dim=2, page_tokens=1, rope_theta=None)
TAIL_TOKENS, SPARE_TOKENS = 4, 3


def write(tail: OutputTail, number: int) -> None:
    """Write an output whose key is its number."""
    tail.buffer.keys[0, 0, tail.append()] = float(number)


def seen(tail: OutputTail, tokens: int) -> list[list[int]]:
    """Return for each of the last ``tokens`` outputs the numbers that it sees, in order."""
    numbers = tail.block.keys[0, 0, :, 0]
    hidden = tail.hidden(tokens)
    if hidden is None:
        return [sorted(numbers.int().tolist())]
    return [sorted(numbers[~row].int().tolist()) for row in hidden]


@pytest.mark.parametrize("seed", range(20))
def test_each_output_sees_the_last_ones_whatever_was_drafted_and_taken_back(seed: int) -> None:
    draw, tail, count = random.Random(seed), OutputTail(GEOMETRY, TAIL_TOKENS, SPARE_TOKENS), 0
    for _ in range(60):
        if draw.random() < 0.1:
            tail.begin_page(1000)
        drafted = draw.randint(1, SPARE_TOKENS + 1)
        for number in range(count, count + drafted):
            write(tail, number)
        wanted = [list(range(max(0, n - TAIL_TOKENS + 1), n + 1)) for n in range(count, count + drafted)]
        assert seen(tail, drafted) == wanted
        kept = draw.randint(1, drafted)
        if drafted > kept:
            tail.take_back(drafted - kept)
        count += kept


def test_a_snapshot_after_something_was_taken_back_holds_what_the_next_output_may_see() -> None:
    tail = OutputTail(GEOMETRY, TAIL_TOKENS, SPARE_TOKENS)
    for number in range(9):
        write(tail, number)
    tail.take_back(2)
    other = OutputTail(GEOMETRY, TAIL_TOKENS, SPARE_TOKENS)
    other.restore(*tail.snapshot())
    for one in (tail, other):
        write(one, 7)
        assert seen(one, 1) == [[4, 5, 6, 7]]


def test_a_page_taken_back_leaves_the_carried_text_that_is_still_there() -> None:
    tail = OutputTail(GEOMETRY, TAIL_TOKENS, SPARE_TOKENS)
    for number in range(6):
        write(tail, number)
    tail.begin_page(1000)
    for number in (90, 91):
        write(tail, number)
    tail.rewind_page()
    write(tail, 6)
    assert seen(tail, 1) == [[3, 4, 5, 6]]


def test_more_than_was_drafted_is_not_taken_back() -> None:
    tail = OutputTail(GEOMETRY, TAIL_TOKENS)
    write(tail, 0)
    assert tail.hidden(1) is None
    with pytest.raises(AssertionError, match="room for 0"):
        tail.take_back(1)
    assert torch.equal(tail.block.keys, torch.zeros(1, 1, 1, 2))
