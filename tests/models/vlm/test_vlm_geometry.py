"""The figures at Unlimited-OCR's geometry: 12 layers, 10 heads, 128 dimensions, bfloat16, 273 visual tokens a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from data_contracts.config import SrSwaConfig, VlmConfig
from models.sr_swa.bands import Bands
from models.sr_swa.context import AttentionContext
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.pages import Decoding

GEOMETRY = Geometry(
    12, 10, 128, 273, torch.bfloat16, query_heads=10, rope_theta=10_000.0, max_positions=32_768, prompt_tokens=16
)
CONFIG = SrSwaConfig(gate_uncertainty=0.0)
GOAL_BYTES = 212_000_000
FULL_PAGE = CONFIG.window_pages + CONFIG.reference_pages + CONFIG.top_k


def bytes_by_page(geometry: Geometry, pages: int) -> Iterator[int]:
    """Yield live and store bytes after each page; every page fetches."""
    context = AttentionContext(geometry, CONFIG)
    shape = (geometry.layers, geometry.kv_heads, geometry.page_tokens, geometry.head_dim)
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(shape, generator=draw).to(geometry.dtype)
    query = torch.randn((*shape[:2], 1, shape[3]), generator=draw)
    block = KVBlock(0, states, states, torch.arange(geometry.page_tokens))
    token = states[:1, :, :1]
    for number in range(1, pages + 1):
        context.begin_page(number)
        context.make_room()
        context.window.admit(replace(block, page_number=number))
        context.fetch(query, 1.0)
        step = context.open_text()
        step.attend(0, token[0], token[0], token[0])
        context.finish_page(Decoding(lines=(), window_mass=context.window_mass()))
        yield context.live_kv_bytes + context.store.nbytes


def test_a_hundred_pages_fit_into_a_fifth_of_a_gigabyte_and_do_not_grow() -> None:
    held = list(bytes_by_page(GEOMETRY, 100))
    assert max(held) <= GOAL_BYTES
    assert len(set(held[FULL_PAGE:])) == 1


@pytest.mark.slow
def test_a_thousand_pages_hold_what_a_hundred_do() -> None:
    """One head of one layer, times all of them: bytes are proportional."""
    held = list(bytes_by_page(replace(GEOMETRY, layers=1, kv_heads=1, query_heads=1), 1_000))
    assert GEOMETRY.layers * GEOMETRY.kv_heads * max(held) <= GOAL_BYTES
    assert len(set(held[FULL_PAGE:])) == 1


def test_positions_stay_below_a_quarter_of_the_model_s_range_with_every_default() -> None:
    bands = Bands.of(GEOMETRY, SrSwaConfig())
    highest_position = bands.text.start + VlmConfig().max_new_tokens - 1
    assert highest_position < 0.25 * GEOMETRY.max_positions
