from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.memory.window import SlidingWindow
from models.sr_swa.rotary import rotate

GEOMETRY = Geometry(layers=2, kv_heads=2, head_dim=4, page_tokens=6)
SLOT_BYTES = 6 * GEOMETRY.bytes_per_token


def page(page_number: int, tokens: int = 6) -> KVBlock:
    keys = torch.randn(2, 2, tokens, 4, generator=torch.Generator().manual_seed(page_number))
    return KVBlock(page_number, keys, -keys, torch.arange(tokens))


def window_of(window_pages: int, pages: range) -> SlidingWindow:
    window = SlidingWindow(GEOMETRY, window_pages)
    for page_number in pages:
        window.admit(page(page_number))
        window.current_page = page_number
    return window


def test_bytes_follow_the_width_and_nothing_else() -> None:
    window = SlidingWindow(GEOMETRY, 3)
    sizes_bytes = [window.nbytes]
    for page_number in range(1, 8):
        if window.is_full:
            window.evict_oldest()
        window.admit(page(page_number, tokens=1 + page_number % 6))
        sizes_bytes.append(window.nbytes)
    assert set(sizes_bytes) == {3 * SLOT_BYTES}


def test_a_page_enters_rotated_by_its_offsets_and_leaves_as_it_came() -> None:
    window = window_of(2, range(1, 3))
    held = window.block(1)
    assert torch.equal(held.keys, rotate(page(1).keys, torch.arange(6), GEOMETRY.rope_theta))
    left, _ = window.evict_oldest()
    assert torch.allclose(left.keys, page(1).keys, atol=1e-6)
    assert torch.equal(left.values, page(1).values)


def test_never_one_page_more_than_the_window_is_wide() -> None:
    window = window_of(2, range(1, 3))
    with pytest.raises(ValueError, match="page 3: the window holds 2 pages; evict the oldest first"):
        window.admit(page(3))
    window.evict_oldest()
    window.admit(page(3))
    assert window.page_numbers == (2, 3)


def test_the_slot_of_the_evicted_page_is_the_slot_of_the_next() -> None:
    window = window_of(3, range(1, 4))
    left, _ = window.evict_oldest()
    window.admit(page(4))
    assert window.block(4).keys.data_ptr() == left.keys.data_ptr()


def test_a_window_shrinks_by_eights_halves_and_grows_back() -> None:
    window = window_of(8, range(1, 9))
    for width in (4, 2, 1):
        with pytest.raises(ValueError, match=f"{len(window.page_numbers)} pages are held, {width} would fit"):
            window.resize(width)
        while len(window.page_numbers) > width:
            window.evict_oldest()
        window.resize(width)
        assert (window.window_pages, window.nbytes) == (width, width * SLOT_BYTES)
        assert window.page_numbers == tuple(range(9 - width, 9))
    for width in (8, 12, 16, 12, 8):
        window.resize(width)
        assert (window.window_pages, window.nbytes) == (width, width * SLOT_BYTES)
    assert torch.equal(window.block(8).values, page(8).values)


def test_attention_mass_adds_up_for_read_pages_only() -> None:
    window = window_of(3, range(1, 4))
    window.current_page = 2
    for _ in range(2):
        window.add_mass({number: torch.arange(6.0) for number in (1, 2, 3, 9)})
    assert window.mass(1).tolist() == window.mass(2).tolist() == [0, 2, 4, 6, 8, 10]
    assert window.mass(3).tolist() == [0] * 6
    window.evict_oldest()
    window.admit(page(4))
    assert window.mass(4).tolist() == [0] * 6


def test_a_page_admitted_again_is_replaced_and_keeps_its_mass() -> None:
    window = window_of(2, range(1, 3))
    window.add_mass({2: torch.ones(6)})
    window.admit(replace(page(7), page_number=2))
    assert torch.equal(window.block(2).values, page(7).values)
    assert window.mass(2).tolist() == [1] * 6
    assert window.page_numbers == (1, 2)


def test_a_page_written_in_place_is_admitted_without_a_copy() -> None:
    window = SlidingWindow(GEOMETRY, 1)
    buffer = window.open(1, 4)
    buffer.write(page(1, tokens=4))
    before = buffer.keys.clone()
    window.admit(window.block(1))
    assert torch.equal(buffer.keys, before)


def test_pages_come_in_order_and_within_their_slot() -> None:
    window = window_of(3, range(4, 6))
    with pytest.raises(ValueError, match="page 3 comes after page 5"):
        window.admit(page(3))
    with pytest.raises(ValueError, match="page 6 has 7 tokens, a slot 6"):
        window.admit(replace(page(6, tokens=7), positions=torch.arange(7) % 6))
    with pytest.raises(ValueError, match="positions 0 to 6 are no offsets within a page of 6 tokens"):
        window.admit(replace(page(6), positions=torch.arange(6) + torch.tensor([0, 0, 0, 0, 0, 1])))


def test_forgetting_a_page_forgets_what_was_prefilled_behind_it() -> None:
    window = window_of(4, range(1, 5))
    window.discard_from(3)
    assert window.page_numbers == (1, 2)
    assert (window.window_pages, window.is_full) == (4, False)


def test_a_restored_window_is_the_same_bit_for_bit_but_for_lookahead() -> None:
    window = window_of(4, range(1, 5))
    window.current_page = 3
    window.add_mass({2: torch.rand(6)})
    restored = SlidingWindow(GEOMETRY, 2)
    restored.restore(*window.snapshot())
    assert restored.page_numbers == (1, 2, 3)
    assert restored.window_pages == 4
    for number in (1, 2, 3):
        assert torch.equal(restored.block(number).keys, window.block(number).keys)
        assert torch.equal(restored.mass(number), window.mass(number))
