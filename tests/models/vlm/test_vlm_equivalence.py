"""SR-SWA inside an unmodified decoder is what it claims to be: stock R-SWA, or the oracle, to four decimals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.reference_transformer import PROMPT_IDS, written
from support.tiny_vlm import PAGE_TOKENS, FeaturePages, sdpa_copy, tiny_reader, tiny_unlimited_ocr
from support.vlm_oracle import OracleModel, VlmOracle

from data_contracts.config import SrSwaConfig
from data_contracts.result import PageResult
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.memory.state import load_state, state_bytes
from models.sr_swa.memory.store import Reference, SparseReferenceStore
from models.sr_swa.pages import Decoding, EncodedPage
from models.vlm.reader import VlmReader

TOLERANCE = 1e-4
PAGES = FeaturePages()
ALL_SEEN = SrSwaConfig(window_pages=3, max_window_pages=3, top_k=0, tail_tokens=5, gate_uncertainty=1)
"""Three pages in a window of three, nothing fetched: R-SWA."""
SPARSE = SrSwaConfig(
    window_pages=2,
    max_window_pages=3,
    top_k=2,
    reference_tokens=3,
    reference_pages=8,
    tail_tokens=4,
    gate_uncertainty=0.05,
)
OUTPUTS = 14
"""Enough for the tail of 5 to slide through twice."""


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_unlimited_ocr()


def read(
    reader: VlmReader, config: SrSwaConfig, pages: Iterable[int] = range(1, 6), **options: Any
) -> list[PageResult]:
    decoder = ContinuousDecoder(reader, config, **options)
    return list(decoder.decode(PAGES.page(number) for number in pages))


def read_watched(model: Any, config: SrSwaConfig, **changes: Any) -> tuple[torch.Tensor, list[PageResult]]:
    """Return the logits [choices, vocabulary] behind every output of five pages, and the pages."""
    seen: list[torch.Tensor] = []
    options = {"select": changes.pop("select")} if "select" in changes else {}
    results = read(tiny_reader(model, watch=lambda row: seen.append(row.clone()), **changes), config, **options)
    return torch.stack(seen), results


def stock_r_swa(model: Any, outputs: Sequence[int], implementation: str, sliding_window: int = 5) -> torch.Tensor:
    """Return the stock model's logits [outputs + 1, vocabulary]: all pages pinned, output sliding, same positions."""
    from transformers import DynamicCache

    stock = sdpa_copy(model, implementation)
    decoder = stock.get_decoder()
    decoder.config.sliding_window = sliding_window
    embed = stock.get_input_embeddings()
    pages = [PAGES.page(number).features for number in (1, 2, 3)]
    prefix = torch.cat([*pages, embed(torch.tensor(PROMPT_IDS))]).unsqueeze(0)
    cache = DynamicCache(config=decoder.config)
    text_start = prefix.shape[1] + ALL_SEEN.tail_tokens  # positions of carried text lie between prompt and new text
    steps = [(prefix, torch.arange(prefix.shape[1]))]
    steps += [
        (embed(torch.tensor([[token]])), torch.tensor([text_start + index])) for index, token in enumerate(outputs)
    ]
    logits = []
    with torch.no_grad():
        for embeddings, positions in steps:
            hidden = decoder(inputs_embeds=embeddings, position_ids=positions[None], past_key_values=cache)
            logits.append(stock.get_output_embeddings()(hidden.last_hidden_state[0, -1]))
    return torch.stack(logits)


@pytest.fixture(scope="module")
def every_head_its_own() -> Any:
    """The stock model's eager attention knows no groups of heads."""
    return tiny_unlimited_ocr(num_key_value_heads=4)


@pytest.fixture(scope="module")
def last_page(every_head_its_own: Any) -> tuple[torch.Tensor, list[int]]:
    """Logits and outputs that follow three pages.

    Without a sink: ours stands at one distance from every page, R-SWA's at one distance from the first.
    """
    seen: list[torch.Tensor] = []
    watch = {"watch": lambda row: seen.append(row.clone())}
    reader = tiny_reader(every_head_its_own, max_new_tokens=OUTPUTS, sink_ids=(), **watch)
    context = AttentionContext(reader.geometry, ALL_SEEN)
    for number in (1, 2, 3):
        admit(reader, context, PAGES.page(number))
    outputs = reader.decode(PAGES.page(3), context).token_ids
    return torch.stack(seen), list(outputs)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_window_that_holds_all_pages_equals_stock_r_swa_at_every_step(
    every_head_its_own: Any, last_page: tuple[torch.Tensor, list[int]], implementation: str
) -> None:
    ours, outputs = last_page
    stock = stock_r_swa(every_head_its_own, outputs, implementation)
    assert ours.std() > 1
    assert (ours - stock).abs().max() <= TOLERANCE
    assert ours.argmax(1).tolist() == stock.argmax(1).tolist()


@pytest.mark.parametrize("sliding_window", [4, 6])
def test_a_tail_off_by_one_fails_loudly(
    every_head_its_own: Any, last_page: tuple[torch.Tensor, list[int]], sliding_window: int
) -> None:
    ours, outputs = last_page
    assert (ours - stock_r_swa(every_head_its_own, outputs, "sdpa", sliding_window)).abs().max() > 0.1


def oracle_logits(
    model: Any, config: SrSwaConfig, results: Sequence[PageResult], **changes: Any
) -> tuple[torch.Tensor, VlmOracle]:
    oracle = VlmOracle(OracleModel(model, tiny_reader(model, **changes)), config, [1, 2, 3, 4, 5])
    logits = oracle.read({result.page_number: written(result) for result in results})
    return torch.cat([logits[result.page_number] for result in results]), oracle


@pytest.mark.parametrize(
    "config",
    [
        SPARSE,
        SPARSE.model_copy(update={"lookahead_pages": 1}),
        SPARSE.model_copy(update={"window_pages": 1, "tail_tokens": 9, "top_k": 1}),
    ],
    ids=["window of two", "one page of lookahead", "window of one"],
)
def test_a_window_below_the_pages_equals_the_oracle(model: Any, config: SrSwaConfig) -> None:
    ours, results = read_watched(model, config)
    wanted, oracle = oracle_logits(model, config, results)
    assert oracle.chosen, "without a fetch this would prove little"
    assert (ours - wanted).abs().max() <= TOLERANCE


def test_a_model_without_a_sink_equals_the_oracle(model: Any) -> None:
    ours, results = read_watched(model, SPARSE, sink_ids=())
    wanted, _ = oracle_logits(model, SPARSE, results, sink_ids=())
    assert (ours - wanted).abs().max() <= TOLERANCE


def test_shuffled_references_fail_loudly(model: Any) -> None:
    def wrong_way_round(store: SparseReferenceStore, query: torch.Tensor, top_k: int) -> Sequence[Reference]:
        return store.select_relevant(query, top_k)[::-1]

    ours, results = read_watched(model, SPARSE, select=wrong_way_round)
    wanted, _ = oracle_logits(model, SPARSE, results)
    assert (ours - wanted).abs().max() > 0.01


def test_keys_without_rotation_fail_loudly(model: Any) -> None:
    seen: list[torch.Tensor] = []
    reader = tiny_reader(model, watch=lambda row: seen.append(row.clone()))
    reader.geometry = replace(reader.geometry, rope_theta=None)
    results = read(reader, SPARSE)
    wanted, _ = oracle_logits(model, SPARSE, results)
    assert (torch.stack(seen) - wanted).abs().max() > 0.1


@pytest.mark.parametrize("start", [1000, 3900])
def test_rebased_keys_equal_recomputed_ones_in_every_layer(model: Any, start: int) -> None:
    from transformers import DynamicCache

    reader = tiny_reader(model, sink_ids=())
    context = AttentionContext(reader.geometry, SPARSE)
    context.begin_page(1)
    reader.prefill(PAGES.page(1), context)
    moved, _ = context.window.evict_oldest()  # un-rotated again: it stood at its offset in the page
    positions = torch.arange(start, start + PAGE_TOKENS)
    stock, cache = sdpa_copy(model).get_decoder(), DynamicCache()
    with torch.no_grad():
        stock(inputs_embeds=PAGES.page(1).features[None], position_ids=positions[None], past_key_values=cache)
    for layer in range(reader.geometry.layers):
        recomputed = cache.layers[layer].keys[0]
        rebased = reader.geometry.rope_theta(positions, torch.float32)(moved.keys[layer])
        assert (rebased - recomputed).norm() <= 5e-5 * recomputed.norm()


def admit(reader: VlmReader, context: AttentionContext, page: EncodedPage) -> None:
    context.begin_page(page.page_number)
    context.make_room()
    context.window.admit(reader.prefill(page, context))


def test_a_ragged_batch_equals_one_document_at_a_time(model: Any) -> None:
    documents = [[(1, 7), (2, 4), (3, 5)], [(8, 3), (9, 6), (10, 2)], [(11, 5), (12, 7), (13, 7)]]  # (page, its tokens)
    seen: list[torch.Tensor] = []
    reader = tiny_reader(model, watch=lambda row: seen.append(row.clone()))
    alone = [AttentionContext(reader.geometry, SPARSE) for _ in documents]
    together = [AttentionContext(reader.geometry, SPARSE) for _ in documents]
    for turn in range(3):
        pages = [PAGES.page(*document[turn]) for document in documents]
        singly = []
        for page, context in zip(pages, alone, strict=True):
            admit(reader, context, page)
            singly.append(reader.decode(page, context))
        seen_singly = torch.stack(seen).unflatten(0, (len(documents), -1))
        seen.clear()
        for page, context in zip(pages, together, strict=True):
            admit(reader, context, page)
        jointly = reader.decode_together(pages, together)
        seen_jointly = _by_document(seen, len(documents))
        seen.clear()
        assert [decoding.token_ids for decoding in jointly] == [decoding.token_ids for decoding in singly]
        assert (seen_jointly - seen_singly).abs().max() <= TOLERANCE
        for context, decoding in zip([*alone, *together], [*singly, *jointly], strict=True):
            context.finish_page(decoding)
    assert all(len(context.store) for context in together)


def _by_document(seen: Sequence[torch.Tensor], documents: int) -> torch.Tensor:
    """Logits come one output of each document after the other: [documents, outputs, vocabulary]."""
    return torch.stack(list(seen)).unflatten(0, (-1, documents)).transpose(0, 1)


@pytest.mark.parametrize("stop_after", [1, 3])
def test_a_resumed_document_is_bitwise_equal(model: Any, stop_after: int) -> None:
    whole, results = read_watched(model, SPARSE)
    seen: list[torch.Tensor] = []
    reader = tiny_reader(model, watch=lambda row: seen.append(row.clone()))
    first = ContinuousDecoder(reader, SPARSE)
    begun = list(first.decode(PAGES.page(number) for number in range(1, stop_after + 1)))
    state = load_state(state_bytes(first.state()), fingerprint=reader.fingerprint, config_sha256="")
    rest = ContinuousDecoder(reader, SPARSE, state).decode(PAGES.page(number) for number in range(stop_after + 1, 6))
    assert [*begun, *rest] == results
    assert torch.equal(torch.stack(seen), whole)


def test_live_bytes_stand_still_once_the_window_is_full(model: Any) -> None:
    results = read(tiny_reader(model), SPARSE.model_copy(update={"reference_pages": 3}), range(1, 16))
    held = [result.metrics.live_kv_bytes + result.metrics.store_kv_bytes for result in results]
    assert len(set(held[7:])) == 1


def test_no_position_grows_with_the_pages(model: Any) -> None:
    positions: list[int] = []
    reader = tiny_reader(model)
    context = ContinuousDecoder(reader, SPARSE).context
    for number in range(1, 12):
        admit(reader, context, PAGES.page(number))
        decoding: Decoding = reader.decode(PAGES.page(number), context)
        positions.append(int(context.open_text().positions[-1]))
        context.finish_page(decoding)
    assert len(set(positions)) == 1
    assert positions[0] < 0.25 * reader.geometry.max_positions


def test_half_precision_keys_are_rounded_once_by_a_move(model: Any) -> None:
    turn = tiny_reader(model).geometry.rope_theta
    keys = torch.randn(4, 50, 8, generator=torch.Generator().manual_seed(9)).bfloat16()
    positions = torch.arange(900, 950)
    moved, exact = turn(positions, torch.bfloat16)(keys), turn(positions, torch.float32)(keys.float())
    assert moved.dtype is torch.bfloat16
    assert (moved.float() - exact).norm() <= 3e-3 * exact.norm()
