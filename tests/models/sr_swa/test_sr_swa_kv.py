from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock, SlotBuffer, storage_bytes

GEOMETRY = Geometry(layers=2, kv_heads=3, head_dim=4, page_tokens=8, payload={"ids": ((5,), torch.int32)})


def block(tokens: int, page_number: int = 1) -> KVBlock:
    keys = torch.arange(2 * 3 * tokens * 4, dtype=torch.float32).view(2, 3, tokens, 4)
    ids = torch.arange(tokens * 5, dtype=torch.int32).view(tokens, 5)
    return KVBlock(page_number, keys, -keys, torch.arange(tokens), {"ids": ids})


def equal(one: KVBlock, other: KVBlock) -> bool:
    pairs = [(one.keys, other.keys), (one.values, other.values), (one.positions, other.positions)]
    pairs += [(one.payload[name], other.payload[name]) for name in one.payload]
    return one.payload.keys() == other.payload.keys() and all(torch.equal(a, b) for a, b in pairs)


def test_slices_joined_are_the_block_again() -> None:
    whole = block(7)
    assert equal(KVBlock.join([whole.slice(0, 3), whole.slice(3, 3), whole.slice(3, 7)]), whole)


def test_a_slice_keeps_its_whole_storage_and_an_owned_one_does_not() -> None:
    whole = block(8)
    part = whole.slice(2, 3)
    assert part.nbytes == whole.nbytes
    assert part.owned().nbytes * 8 == whole.nbytes
    assert equal(part.owned(), part)


def test_taken_tokens_come_in_the_order_asked_for_and_own_their_memory() -> None:
    whole = block(8)
    taken = whole.take(torch.tensor([5, 1]))
    assert taken.positions.tolist() == [5, 1]
    assert torch.equal(taken.values[:, :, 0], whole.values[:, :, 5])
    assert taken.nbytes * 4 == whole.nbytes


def test_an_owned_block_is_contiguous_whatever_it_was_cut_from() -> None:
    transposed = block(6).keys.transpose(1, 2).contiguous().transpose(1, 2)
    owned = replace(block(6), keys=transposed).owned()
    assert owned.keys.is_contiguous()
    assert torch.equal(owned.keys, transposed)


def test_moving_to_half_precision_leaves_positions_and_payload_alone() -> None:
    moved = block(3).to("cpu", torch.bfloat16)
    assert (moved.keys.dtype, moved.values.dtype) == (torch.bfloat16, torch.bfloat16)
    assert (moved.positions.dtype, moved.payload["ids"].dtype) == (torch.int64, torch.int32)


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ({"values": torch.zeros(2, 3, 4, 4)}, "[2, 3, 4, 4]"),
        ({"positions": torch.arange(4)}, "[4]"),
        ({"payload": {"ids": torch.zeros(2, 5)}}, "[2, 5]"),
        ({"keys": torch.zeros(3, 4), "values": torch.zeros(3, 4)}, "[3, 4]"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused_with_their_shapes(wrong: dict[str, object], shown: str) -> None:
    with pytest.raises(ValueError, match=r"page 1") as refusal:
        replace(block(3), **wrong)  # type: ignore[arg-type]
    assert shown in str(refusal.value)


def test_slices_outside_and_joins_of_nothing_or_of_strangers_are_refused() -> None:
    with pytest.raises(ValueError, match="2:9 of a block of 8"):
        block(8).slice(2, 9)
    with pytest.raises(ValueError, match="no blocks"):
        KVBlock.join([])
    with pytest.raises(ValueError, match="different payloads"):
        KVBlock.join([block(2), replace(block(2), payload={})])


def test_a_buffer_holds_what_was_written_at_its_position_and_never_grows() -> None:
    buffer = SlotBuffer(GEOMETRY, 8)
    size_bytes = buffer.nbytes
    buffer.write(block(3), 4)
    buffer.write_layer(1, 0, torch.ones(3, 2, 4), torch.ones(3, 2, 4))
    assert equal(buffer.view(4, 7, page_number=1), block(3))
    assert buffer.keys[1, :, :2].unique().tolist() == [1.0]
    assert buffer.keys[0, :, :4].unique().tolist() == [0.0]
    assert buffer.nbytes == size_bytes == 2 * 2 * 3 * 8 * 4 * 4 + 8 * 5 * 4
    assert buffer.bookkeeping_bytes == 8 * 8


def test_a_view_of_a_buffer_shows_later_writes() -> None:
    buffer = SlotBuffer(GEOMETRY, 8)
    view = buffer.view(0, 3)
    buffer.write(block(3))
    assert equal(view, block(3))


def test_what_does_not_fit_a_buffer_is_refused_with_the_remedy() -> None:
    buffer = SlotBuffer(GEOMETRY, 8)
    with pytest.raises(ValueError, match=r"tokens 6:9 of a buffer for 8: give the geometry more page_tokens"):
        buffer.write(block(3), 6)
    with pytest.raises(ValueError, match="7:9"):
        buffer.write_layer(0, 7, torch.ones(3, 2, 4), torch.ones(3, 2, 4))
    with pytest.raises(ValueError, match="promises a payload"):
        buffer.write(replace(block(3), payload={}))
    with pytest.raises(ValueError, match="another geometry"):
        SlotBuffer(replace(GEOMETRY, kv_heads=1), 8).write(block(3))


def test_bytes_count_each_storage_once() -> None:
    storage = torch.zeros(100)
    assert storage_bytes([storage[:10], storage[50:], torch.zeros(3), torch.zeros(0)]) == 412
