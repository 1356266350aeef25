"""SR-SWA against the oracle: full attention over everything, with the mask that the definition of A(p, t) gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from support.oracle import Oracle
from support.reference_transformer import ReferenceTransformer, written
from torch.utils._python_dispatch import TorchDispatchMode

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ConfigError, DecodeFailed
from models.sr_swa.bands import Bands
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.memory.store import Reference, SparseReferenceStore

SAME = 1e-4
"""Logits in float32 against float64; they spread by about 1.6."""
LOUD = 0.1
"""A mistake must move some logit by at least a thousand times as much."""
HALF_PRECISION = {torch.float16: 0.05, torch.bfloat16: 0.4}
"""Largest error of a logit, all weights and states being rounded to 11 and to 8 bits: 0.02 and 0.13 were seen."""
PAGES = range(1, 11)

SMALL = SrSwaConfig(
    window_pages=3,
    max_window_pages=4,
    top_k=2,
    reference_tokens=2,
    tail_tokens=5,
    gate_uncertainty=0,
    reference_pages=99,
)


def configured(**changes: Any) -> SrSwaConfig:
    return SrSwaConfig(**SMALL.model_dump() | changes)


def read(
    model: ReferenceTransformer, config: SrSwaConfig, pages: range = PAGES, **options: Any
) -> dict[int, list[int]]:
    decoder = ContinuousDecoder(model, config, **options)
    return {result.page_number: written(result) for result in decoder.decode(model.page(number) for number in pages)}


def error(model: ReferenceTransformer, oracle: Oracle, outputs: dict[int, list[int]]) -> float:
    """Largest difference of any logit on any page."""
    expected = oracle.read(outputs)
    return max(float((model.logits[page].double().cpu() - expected[page]).abs().max()) for page in outputs)


GEOMETRIES: dict[str, dict[str, Any]] = {
    "multi-head": {"query_heads": 4, "kv_heads": 4},
    "grouped": {"query_heads": 4, "kv_heads": 2},
    "multi-query": {"query_heads": 4, "kv_heads": 1},
    "one layer": {"layers": 1},
    "three layers": {"layers": 3},
    "no sink": {"sink": False},
    "no positions": {"rope_theta": None},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "references": {},
    "gate off": {"gate_uncertainty": 1},
    "one page ahead": {"lookahead_pages": 1},
    "nothing but ahead": {"lookahead_pages": 2},
    "one page": {"window_pages": 1},
    "no tail": {"tail_tokens": 0},
    "long tail": {"tail_tokens": 64},
    "no references": {"top_k": 0},
}


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_logits_equal_full_attention_in_every_geometry(geometry: dict[str, Any]) -> None:
    model = ReferenceTransformer(**geometry)
    outputs = read(model, SMALL)
    oracle = Oracle(model, SMALL, PAGES)
    assert error(model, oracle, outputs) < SAME
    assert model.fetched == oracle.chosen
    assert len(model.fetched) > len(PAGES)


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
def test_logits_equal_full_attention_in_every_configuration(changes: dict[str, Any]) -> None:
    model, config = ReferenceTransformer(), configured(**changes)
    outputs = read(model, config)
    oracle = Oracle(model, config, PAGES)
    assert error(model, oracle, outputs) < SAME
    assert model.fetched == oracle.chosen


def test_logits_equal_full_attention_after_the_frame_of_the_tail_began_anew() -> None:
    model, pages = ReferenceTransformer(layers=1), range(1, 25)
    decoder = ContinuousDecoder(model, SMALL)
    restarts, outputs, offset = 0, {}, 0
    for result in decoder.decode(model.page(number) for number in pages):
        outputs[result.page_number] = written(result)
        restarts += decoder.context.tail.frame_offset < offset
        offset = decoder.context.tail.frame_offset
    assert error(model, Oracle(model, SMALL, pages), outputs) < SAME
    assert restarts >= 2


@pytest.mark.parametrize("dtype", HALF_PRECISION)
def test_half_precision_stays_near_and_does_not_drift_from_page_to_page(dtype: torch.dtype) -> None:
    model = ReferenceTransformer(dtype=dtype)
    outputs = read(model, configured(gate_uncertainty=1))
    expected = Oracle(model, configured(gate_uncertainty=1), PAGES).read(outputs)
    errors = [float((model.logits[page].double() - expected[page]).abs().max()) for page in PAGES]
    print(f"{dtype}: largest error of a logit by page {[round(e, 4) for e in errors]}")
    assert max(errors) < HALF_PRECISION[dtype]


@pytest.mark.gpu
@pytest.mark.parametrize("lookahead_pages", [0, 2])
def test_logits_equal_full_attention_on_a_gpu(lookahead_pages: int) -> None:
    model, config = ReferenceTransformer(device="cuda"), configured(lookahead_pages=lookahead_pages)
    outputs = read(model, config)
    oracle = Oracle(model, config, PAGES)
    assert error(model, oracle, outputs) < SAME
    assert model.fetched == oracle.chosen


# What must be noticed


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_tail_one_token_off_is_noticed(wrong: int) -> None:
    model = ReferenceTransformer()
    outputs = read(model, SMALL)
    assert error(model, Oracle(model, SMALL, PAGES, tail_tokens=SMALL.tail_tokens + wrong), outputs) > LOUD


@pytest.mark.parametrize("wrong", [2, 4])
def test_a_window_one_page_off_is_noticed(wrong: int) -> None:
    model = ReferenceTransformer()
    outputs = read(model, SMALL)
    assert error(model, Oracle(model, configured(window_pages=wrong), PAGES), outputs) > LOUD


def test_missing_rotation_is_noticed() -> None:
    model = ReferenceTransformer(rope_theta=None)
    outputs = read(model, SMALL)
    model.geometry = replace(model.geometry, rope_theta=100.0)
    assert error(model, Oracle(model, SMALL, PAGES), outputs) > LOUD


def test_pages_in_the_wrong_places_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Bands.page_start
    monkeypatch.setattr(Bands, "page_start", lambda self, pages_behind: right(self, min(pages_behind, 1)))
    model = ReferenceTransformer()
    outputs = read(model, SMALL)
    assert error(model, Oracle(model, SMALL, PAGES), outputs) > LOUD


def test_a_tail_that_forgets_to_move_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from models.sr_swa.memory.tail import OutputTail

    monkeypatch.setattr(OutputTail, "frame_offset", property(lambda _: 0))
    model = ReferenceTransformer()
    outputs = read(model, SMALL)
    assert error(model, Oracle(model, SMALL, PAGES), outputs) > LOUD


def test_shuffled_references_are_noticed() -> None:
    def worst_first(store: SparseReferenceStore, query: torch.Tensor, top_k: int) -> list[Reference]:
        return store.select_relevant(query, len(store))[::-1][:top_k]

    model = ReferenceTransformer()
    outputs = read(model, SMALL, select=worst_first)
    assert error(model, Oracle(model, SMALL, PAGES), outputs) > LOUD


def test_a_gate_always_off_or_always_on_is_noticed() -> None:
    model = ReferenceTransformer()
    outputs = read(model, SMALL)
    assert error(model, Oracle(model, configured(gate_uncertainty=1), PAGES), outputs) > LOUD


# What a step costs


class Allocations(TorchDispatchMode):
    """Notes the size of every tensor that an operation makes with memory of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {part.untyped_storage().data_ptr() for part in args if isinstance(part, torch.Tensor)}
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in known:
            self.largest = max(self.largest, result.numel())
        return result


def filled(geometry: Geometry, config: SrSwaConfig, pages: int) -> AttentionContext:
    context = AttentionContext(geometry, config)
    shape = (geometry.layers, geometry.kv_heads, geometry.page_tokens, geometry.head_dim)
    for page_number in range(1, pages + 1):
        context.begin_page(page_number)
        context.make_room()
        keys = torch.randn(shape, generator=torch.Generator().manual_seed(page_number)).to(geometry.dtype)
        context.window.admit(KVBlock(page_number, keys, keys, torch.arange(geometry.page_tokens)))
    return context


def attend(context: AttentionContext, open_step: Callable[[], Any]) -> torch.Tensor:
    geometry = context.geometry
    new = torch.ones(geometry.query_heads or geometry.kv_heads, 1, geometry.head_dim, dtype=geometry.dtype)
    return open_step().attend(0, new, new[: geometry.kv_heads], new[: geometry.kv_heads])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_step_copies_no_page(dtype: torch.dtype) -> None:
    geometry = Geometry(1, 2, 64, page_tokens=256, query_heads=4, dtype=dtype)
    config = configured(window_pages=4, max_window_pages=4, reference_tokens=16)
    context = filled(geometry, config, pages=8)
    context.fetch(torch.ones(1, 2, 1, 64), uncertainty=1.0)
    attend(context, context.open_text)
    with Allocations() as seen:
        attend(context, context.open_text)
    assert 0 < seen.largest < geometry.page_tokens * geometry.head_dim
    with Allocations() as seen:
        context.window.block(8).owned()
    assert seen.largest >= geometry.page_tokens * geometry.head_dim * geometry.kv_heads


def test_a_page_turn_moves_no_key() -> None:
    geometry = Geometry(1, 2, 8, page_tokens=4)
    context = filled(geometry, configured(window_pages=4, max_window_pages=8), pages=4)
    before = {number: context.window.block(number) for number in (2, 3, 4)}
    copies = {number: block.owned() for number, block in before.items()}
    context.begin_page(5)
    context.make_room()
    for number, block in before.items():
        after = context.window.block(number)
        assert after.keys.data_ptr() == block.keys.data_ptr()
        assert torch.equal(after.keys, copies[number].keys)


# Where things stand


def test_bands_follow_one_another_and_leave_room_for_new_text() -> None:
    geometry = Geometry(1, 1, 8, page_tokens=256, sink_tokens=4, prompt_tokens=16)
    bands = Bands.of(geometry, SrSwaConfig())
    edges = [bands.sink, bands.references, bands.window, bands.prompt, bands.tail, bands.text]
    assert all(one.stop == other.start for one, other in pairwise(edges))
    assert [len(band) for band in edges[:-1]] == [4, 2 * 4 * 16, 16 * 256, 16, 128]
    assert bands.text.stop == geometry.max_positions
    assert (bands.page_start(0), bands.page_start(15)) == (bands.window.stop - 256, bands.window.start)


def test_an_attention_set_beyond_the_models_positions_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"needs 4368 positions .* the model has 4096: lower max_window_pages"):
        Bands.of(Geometry(1, 1, 8, page_tokens=256, prompt_tokens=16, max_positions=4096), SrSwaConfig())
    Bands.of(Geometry(1, 1, 8, page_tokens=256, max_positions=4096, rope_theta=None), SrSwaConfig())


def test_neither_a_fetch_nor_a_wider_window_moves_a_page() -> None:
    context = filled(Geometry(1, 2, 8, page_tokens=4), configured(window_pages=3, max_window_pages=8), pages=6)

    def places() -> dict[str, int]:
        return {span.name: span.origin for span in context.open_text().spans}

    before = places()
    context.fetch(torch.ones(1, 2, 1, 8), uncertainty=1.0)
    after = places()
    assert set(after) - set(before) == {"references"}
    context.begin_page(7)
    context.follow(window_pages=6, reference_tokens=4)
    assert {name: place for name, place in places().items() if name != "tail"} == {
        name: place for name, place in before.items() if name != "tail"
    }


def test_an_output_without_a_position_is_refused_before_it_is_written() -> None:
    geometry = Geometry(1, 2, 8, page_tokens=4, max_positions=50)
    context = filled(geometry, SMALL, pages=2)
    room = len(context.bands.text)
    for _ in range(room):
        attend(context, context.open_text)
    with pytest.raises(DecodeFailed, match=f"page 2 has {room} outputs and no position is left"):
        context.open_text()
    assert context.tail.page_tokens == room


def test_attention_mass_of_window_and_references_is_a_share_of_each_step() -> None:
    context = filled(Geometry(1, 2, 8, page_tokens=4), SMALL, pages=8)
    fetch = context.fetch(torch.ones(1, 2, 1, 8), uncertainty=1.0)
    assert fetch is not None
    for _ in range(3):
        attend(context, context.open_text)
    mass = context.window_mass()
    assert list(mass) == [6, 7, 8]
    assert 0 < sum(float(part.sum()) for part in mass.values()) < 3
    assert 0 < float(fetch.peak_mass.sum()) < 1
    assert fetch.hits(0.0) == list(fetch.page_numbers)
    assert fetch.hits(1.0) == []


def test_a_gate_that_does_not_fire_fetches_nothing_and_an_empty_store_neither() -> None:
    context = filled(Geometry(1, 2, 8, page_tokens=4), configured(gate_uncertainty=0.5), pages=2)
    query = torch.ones(1, 2, 1, 8)
    assert context.fetch(query, uncertainty=0.5) is None
    assert context.metrics().gate_fired == 0
    assert context.fetch(query, uncertainty=0.6) is None
    assert (context.metrics().gate_fired, context.metrics().references_fetched) == (1, 0)
