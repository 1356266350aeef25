from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.sr_swa.baselines import (
    BASELINES,
    STREAMING_SINK_TOKENS,
    Baseline,
    FullCache,
    PageLoop,
    ReferenceSlidingCache,
    StreamingCache,
    Workload,
    ring_attention_tokens,
)
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock

GEOMETRY = Geometry(layers=2, kv_heads=2, head_dim=4, page_tokens=6, query_heads=4, prompt_tokens=3)
WORKLOAD = Workload(GEOMETRY, text_tokens=5, tail_tokens=4, budget_tokens=20)
SEVEN_B = Workload(
    Geometry(layers=32, kv_heads=32, head_dim=128, page_tokens=256, dtype=torch.float16, prompt_tokens=16),
    text_tokens=640,
    tail_tokens=128,
    budget_tokens=2256,
)
PROMPT = -1.0


def page(number: int, geometry: Geometry = GEOMETRY, tokens: int = WORKLOAD.page_tokens) -> KVBlock:
    """A page whose token i is filled with ``number + i / 100`` everywhere."""
    marks = number + torch.arange(tokens) / 100
    keys = marks.view(1, 1, -1, 1).expand(geometry.layers, geometry.kv_heads, tokens, geometry.head_dim)
    return KVBlock(number, keys.contiguous(), keys.contiguous(), torch.arange(tokens))


def read(baseline: type[Baseline], pages: int, workload: Workload = WORKLOAD) -> Baseline:
    cache = baseline(workload, pages)
    cache.buffer.keys[:, :, : GEOMETRY.prompt_tokens] = PROMPT
    for number in range(1, pages + 1):
        cache.read_page(page(number))
    return cache


def held(cache: Baseline) -> list[float]:
    """What the cache holds, by the marks of its tokens, in ascending order; the prompt is -1."""
    return sorted(round(mark, 2) for mark in cache.buffer.keys[0, 0, : cache.held_tokens, 0].tolist())


def tokens(number: int, start: int = 0, stop: int = WORKLOAD.page_tokens) -> list[float]:
    return [round(number + i / 100, 2) for i in range(start, stop)]


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("pages", [0, 1, 2, 7])
def test_the_bytes_of_a_baseline_are_its_formula_times_the_bytes_of_a_token(
    baseline: type[Baseline], pages: int
) -> None:
    cache = read(baseline, pages)
    assert cache.kv_bytes == baseline.tokens_after(WORKLOAD, pages) * GEOMETRY.bytes_per_token


def test_the_figures_of_the_design_for_7b_and_100_pages_come_out() -> None:
    gigabytes = [baseline.tokens_after(SEVEN_B, 100) * SEVEN_B.geometry.bytes_per_token / 1e9 for baseline in BASELINES]
    assert [round(value, 2) for value in gigabytes] == [46.98, 13.5, 1.18, 0.48]


def test_the_full_cache_holds_everything() -> None:
    assert held(read(FullCache, 3)) == [PROMPT] * 3 + tokens(1) + tokens(2) + tokens(3)


def test_r_swa_holds_the_visual_tokens_of_all_pages_and_the_last_output() -> None:
    visual = [mark for number in (1, 2, 3) for mark in tokens(number, 0, 6)]
    assert held(read(ReferenceSlidingCache, 3)) == sorted([PROMPT] * 3 + visual + tokens(3, 7, 11))


@given(st.integers(0, 12), st.integers(STREAMING_SINK_TOKENS + 1, 40))
@settings(max_examples=50)
def test_the_streaming_cache_holds_the_first_four_tokens_and_the_last_ones(pages: int, budget_tokens: int) -> None:
    workload = Workload(GEOMETRY, text_tokens=5, tail_tokens=4, budget_tokens=budget_tokens)
    document = [PROMPT] * 3 + [mark for number in range(1, pages + 1) for mark in tokens(number)]
    expected = document
    if len(document) > budget_tokens:
        expected = document[:STREAMING_SINK_TOKENS] + document[STREAMING_SINK_TOKENS - budget_tokens :]
    assert held(read(StreamingCache, pages, workload)) == sorted(expected)


def test_the_page_loop_holds_the_last_page_only() -> None:
    assert held(read(PageLoop, 3)) == [PROMPT] * 3 + tokens(3)


def test_only_the_full_cache_and_r_swa_grow_with_the_pages() -> None:
    growth = {
        baseline.name: baseline.tokens_after(WORKLOAD, 1000) - baseline.tokens_after(WORKLOAD, 999)
        for baseline in BASELINES
    }
    assert growth == {"full cache": 11, "R-SWA": 6, "StreamingLLM-style": 0, "page loop": 0}


@pytest.mark.parametrize("baseline", [FullCache, ReferenceSlidingCache])
def test_a_baseline_that_grows_refuses_a_page_beyond_what_it_was_made_for(baseline: type[Baseline]) -> None:
    cache = read(baseline, 2)
    with pytest.raises(ValueError, match="of a buffer for"):
        cache.read_page(page(3))


def test_a_page_of_another_length_is_refused_with_both_lengths() -> None:
    with pytest.raises(ValueError, match="page 1 has 9 tokens, the workload says 11"):
        FullCache(WORKLOAD, 1).read_page(page(1, tokens=9))


def test_a_slice_of_the_layers_takes_that_share_of_the_bytes() -> None:
    assert FullCache(WORKLOAD, 4, layers=1).kv_bytes * 2 == FullCache(WORKLOAD, 4).kv_bytes


def test_ring_attention_spreads_the_full_cache_but_its_total_does_not_shrink() -> None:
    total = FullCache.tokens_after(WORKLOAD, 100)
    assert ring_attention_tokens(WORKLOAD, 100, devices=1) == 2 * total
    assert 8 * ring_attention_tokens(WORKLOAD, 100, devices=8) >= 2 * total
    assert ring_attention_tokens(WORKLOAD, 200, devices=8) > 1.9 * ring_attention_tokens(WORKLOAD, 100, devices=8)


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_step_attends_to_exactly_what_is_held(baseline: type[Baseline]) -> None:
    """With keys of zero the result is the mean of the values, which shows every token that is in or out."""
    cache = read(baseline, 3)
    cache.buffer.keys.zero_()
    new_value = torch.full((2, 1, 4), 100.0)
    result = cache.open_step(3).attend(1, torch.ones(4, 1, 4), torch.zeros(2, 1, 4), new_value)
    values = cache.buffer.values[1, 0, : cache.held_tokens, 0]
    assert values[-1] == 100.0
    torch.testing.assert_close(result, values.mean().expand(4, 1, 4))


@pytest.mark.parametrize("baseline", [FullCache, ReferenceSlidingCache])
def test_a_step_as_after_fewer_pages_attends_to_what_was_held_then(baseline: type[Baseline]) -> None:
    cache = read(baseline, 3)
    cache.buffer.keys.zero_()
    result = cache.open_step(2).attend(0, torch.ones(4, 1, 4), torch.zeros(2, 1, 4), torch.zeros(2, 1, 4))
    held = cache.buffer.values[0, 0, : baseline.tokens_after(WORKLOAD, 2), 0]
    torch.testing.assert_close(result, held.mean().expand(4, 1, 4))
