"""The fifteen ways in which attention sets and transformers go wrong together, each one shown not to happen here.

They were all met by running them. Where the library itself does the wrong thing, that is shown as well: when it is
mended, the test says so.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.reference_transformer import written
from support.tiny_vlm import PAGE_TOKENS, RULES, FeaturePages, sdpa_copy, tiny_reader, tiny_unlimited_ocr
from transformers import Cache, DynamicCache
from transformers.cache_utils import DYNAMIC_LAYER_TYPE_MAPPING, STATIC_LAYER_TYPE_MAPPING
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ModelUnavailable
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import COMPLETE, ContinuousDecoder
from models.sr_swa.memory.kv import storage_bytes
from models.sr_swa.memory.state import state_bytes
from models.vlm import cache as cache_module
from models.vlm.cache import Flight, SrSwaLayer, cache_of, sr_swa_attention
from models.vlm.reader import VlmReader
from models.vlm.writer import TOKEN_CAP

PAGES = FeaturePages()
CONFIG = SrSwaConfig(window_pages=2, max_window_pages=2, top_k=1, reference_tokens=3, reference_pages=4, tail_tokens=4)


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_unlimited_ocr()


def context_at(reader: VlmReader, page_number: int) -> AttentionContext:
    """Return a context in which pages up to ``page_number`` have been read, the last one prefilled only."""
    context = AttentionContext(reader.geometry, CONFIG)
    for number in range(1, page_number + 1):
        context.begin_page(number)
        context.make_room()
        context.window.admit(reader.prefill(PAGES.page(number), context))
        if number < page_number:
            context.finish_page(reader.decode(PAGES.page(number), context))
    return context


def test_1_our_layer_replaces_no_cache_of_the_library() -> None:
    tiny_unlimited_ocr()  # its module registers the library's own layer
    before = dict(DYNAMIC_LAYER_TYPE_MAPPING), dict(STATIC_LAYER_TYPE_MAPPING), set(ALL_ATTENTION_FUNCTIONS.keys())
    spec = importlib.util.spec_from_file_location("imported_afresh", Path(cache_module.__file__))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name
    importlib.import_module("sys").modules["imported_afresh"] = module
    spec.loader.exec_module(module)
    del importlib.import_module("sys").modules["imported_afresh"]
    after = dict(DYNAMIC_LAYER_TYPE_MAPPING), dict(STATIC_LAYER_TYPE_MAPPING), set(ALL_ATTENTION_FUNCTIONS.keys())
    assert after == before
    assert SrSwaLayer._layer_type is None
    stock = DYNAMIC_LAYER_TYPE_MAPPING["reference_sliding_attention"]
    assert stock.__module__.startswith("transformers.")


def test_1_other_models_of_the_process_keep_the_library_s_cache(model: Any) -> None:
    tiny_reader(model)
    layers = DynamicCache(config=tiny_unlimited_ocr().get_decoder().config).layers
    assert {type(layer).__module__.split(".")[0] for layer in layers} == {"transformers"}


def test_2_stock_r_swa_is_wrong_for_left_padded_batches_and_ours_has_no_padding(model: Any) -> None:
    stock = sdpa_copy(model).get_decoder()
    draw = torch.Generator().manual_seed(3)
    prefix, outputs = torch.randn(1, 9, 32, generator=draw), torch.randn(1, 20, 32, generator=draw)

    def run(padding: int) -> torch.Tensor:
        states = torch.cat([torch.zeros(1, padding, 32), prefix], dim=1)
        mask = torch.cat([torch.zeros(1, padding), torch.ones(1, 9)], dim=1)
        cache, hidden = DynamicCache(config=stock.config), []
        for step in range(21):
            positions = torch.arange(states.shape[1])[None] - padding if step == 0 else torch.tensor([[8 + step]])
            with torch.no_grad():
                output = stock(
                    inputs_embeds=states,
                    attention_mask=mask,
                    position_ids=positions.clamp(min=0),
                    past_key_values=cache,
                )
            hidden.append(output.last_hidden_state[:, -1])
            states, mask = outputs[:, step : step + 1], torch.cat([mask, torch.ones(1, 1)], dim=1)
        return torch.cat(hidden)

    alone, padded = run(0), run(6)
    assert (padded[:5] - alone[:5]).abs().max() < 1e-4
    assert (padded - alone).abs().max() > 1e-2, "the library's ragged batches are right now: say so in the README"


def test_3_several_tokens_behind_held_ones_see_all_of_them(model: Any) -> None:
    reader = tiny_reader(model)
    context, one_by_one = context_at(reader, 3), context_at(reader, 3)
    driver, ids = reader.driver, RULES.prompt_ids
    together = driver.forward(driver.embed_ids(ids)[None], [context.open_prompt(3)], logits_of=3).logits[0]
    singly = [driver.forward(driver.embed_ids([token])[None], [one_by_one.open_prompt(1)]).logits[0] for token in ids]
    assert (together - torch.cat(singly)).abs().max() < 1e-4


def test_3_attention_outside_a_flight_or_under_a_mask_is_refused(model: Any) -> None:
    reader = tiny_reader(model)
    with pytest.raises(ValueError, match="call it through DecoderDriver"):
        reader.driver.decoder(inputs_embeds=torch.zeros(1, 3, 32))
    step = context_at(reader, 1).open_prompt(1)
    states = torch.zeros(1, 2, 1, 8)
    with pytest.raises(ValueError, match="held, not masked"):
        sr_swa_attention(None, states, states, states, torch.ones(1, 1, 1, 9), sr_swa_flight=Flight([step]))


def test_4_a_page_prefilled_by_itself_is_no_output(model: Any) -> None:
    context = context_at(tiny_reader(model), 2)
    assert [context.window.block(number).tokens for number in (1, 2)] == [PAGE_TOKENS] * 2
    assert context.tail.page_tokens == 0
    step = context.open_prompt(1)
    assert sum(span.tokens for span in step.spans) == 2 + 2 * PAGE_TOKENS + 1  # sink, pages, itself


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("reset", ()),
        ("offload", ()),
        ("prefetch", ()),
        ("crop", (-1,)),
        ("reorder_cache", (torch.tensor([0]),)),
        ("batch_repeat_interleave", (2,)),
        ("batch_select_indices", (torch.tensor([0]),)),
    ],
)
def test_5_what_the_library_may_do_to_a_cache_is_refused_not_half_done(
    model: Any, method: str, argument: tuple[Any, ...]
) -> None:
    layer = SrSwaLayer(0, Flight([context_at(tiny_reader(model), 1).open_prompt(1)]))
    with pytest.raises(NotImplementedError, match="through AttentionContext"):
        getattr(layer, method)(*argument)


def state_after(model: Any, pages: int) -> ContinuousDecoder:
    decoder = ContinuousDecoder(tiny_reader(model), CONFIG)
    list(decoder.decode(PAGES.page(number) for number in range(1, pages + 1)))
    return decoder


def test_6_tensors_of_a_state_are_contiguous_and_share_no_storage(model: Any) -> None:
    tensors = [tensor for tensor in state_after(model, 5).state().tensors.values() if tensor.numel()]
    assert all(tensor.is_contiguous() for tensor in tensors)
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors)


def test_7_a_reference_keeps_no_page_alive_and_bytes_are_those_of_storages(model: Any) -> None:
    store = state_after(model, 6).context.store
    assert len(store) == 4
    for number in store.page_numbers:
        for tensor in store[number].parts().values():
            assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    kept = [
        part for number in store.page_numbers for name, part in store[number].parts().items() if name != "positions"
    ]
    assert store.nbytes == storage_bytes(kept)


def test_8_a_state_saved_again_is_the_same_bytes_with_one_metadata_string(model: Any) -> None:
    state = state_after(model, 5).state()
    data = state_bytes(state)
    assert {state_bytes(state) for _ in range(20)} == {data}
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert len(header["__metadata__"]) == 1


def test_9_all_layers_hold_equally_many_tokens(model: Any) -> None:
    context = context_at(tiny_reader(model), 3)
    lengths = {layer.get_seq_length() for layer in cache_of(Flight([context.open_prompt(2)]), 2).layers}
    assert lengths == {2 + 2 * PAGE_TOKENS}


def test_10_lengths_are_physical_however_many_pages_were_read(model: Any) -> None:
    cache: Cache = cache_of(Flight([context_at(tiny_reader(model), 9).open_prompt(1)]), 2)
    assert cache.get_seq_length() == 2 + 2 * PAGE_TOKENS
    assert cache.layers[0].get_mask_sizes(1) == (2 + 2 * PAGE_TOKENS + 1, 0)
    assert cache.layers[0].get_max_length() == -1


def test_11_a_gap_of_positions_does_not_split_the_tokens_into_documents(model: Any) -> None:
    """Window and prompt stand behind an empty band; shifting all of them alike changes nothing."""
    reader = tiny_reader(model, sink_ids=())
    wide = CONFIG.model_copy(update={"top_k": 8, "reference_tokens": 16})  # 256 positions reserved before the window
    logits = []
    for config in (CONFIG, wide):
        context = AttentionContext(reader.geometry, config)
        context.begin_page(1)
        reader.prefill(PAGES.page(1), context)
        embeddings = reader.driver.embed_ids(RULES.prompt_ids)[None]
        logits.append(reader.driver.forward(embeddings, [context.open_prompt(3)]).logits)
    assert (logits[0] - logits[1]).abs().max() < 1e-4


def test_12_positions_left_on_the_model_by_an_earlier_call_change_nothing() -> None:
    from support.tiny_families import tiny_family

    qwen = tiny_family("qwen2_5_vl")
    reader = tiny_reader(qwen)
    fresh = list(ContinuousDecoder(reader, CONFIG).decode([PAGES.page(1)]))
    qwen.model.rope_deltas = torch.tensor([[777]])
    assert list(ContinuousDecoder(reader, CONFIG).decode([PAGES.page(1)])) == fresh


def test_13_the_layer_does_not_claim_to_be_compileable() -> None:
    assert SrSwaLayer.is_compileable is False
    assert SrSwaLayer.is_croppable is False


@pytest.mark.parametrize("stop", [0, 1])
def test_14_either_stop_ends_a_page_and_the_start_is_forced(model: Any, stop: int) -> None:
    free = tiny_reader(model, max_new_tokens=12)
    plain = written(next(ContinuousDecoder(free, CONFIG).decode([PAGES.page(1)])))
    place = next(index for index in range(3, 12) if plain[index] not in plain[:index])
    stops = (plain[place], 4711) if stop == 0 else (4711, plain[place])
    ended = next(
        ContinuousDecoder(tiny_reader(model, max_new_tokens=12, stop_ids=stops), CONFIG).decode([PAGES.page(1)])
    )
    assert (written(ended), ended.stop_reason) == (plain[:place], COMPLETE)
    forced = tiny_reader(model, start_ids=(plain[place], 7), stop_ids=stops)
    result = next(ContinuousDecoder(forced, CONFIG).decode([PAGES.page(1)]))
    assert written(result)[:2] == [plain[place], 7]  # a page may begin with what ends the one before
    assert TOKEN_CAP != COMPLETE


@pytest.mark.parametrize("sink_ids", [(), (0,), (0, 4, 9, 11)])
def test_15_any_size_of_sink_stays_for_the_whole_document(model: Any, sink_ids: tuple[int, ...]) -> None:
    reader = tiny_reader(model, sink_ids=sink_ids)
    context = context_at(reader, 2)
    early = context.sink.keys.clone()
    later = context_at(reader, 6)
    assert torch.equal(later.sink.keys, early)
    assert later.needs_sink is False
    assert len(later.open_prompt(1).spans) == 3 + bool(sink_ids)


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_positions_that_depend_on_the_longest_one_seen_are_refused(rope_type: str) -> None:
    rope = {"rope_type": rope_type, "rope_theta": 100.0, "factor": 2.0, "original_max_position_embeddings": 64}
    if rope_type == "longrope":
        rope |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    other = tiny_unlimited_ocr(rope_parameters=rope)
    with pytest.raises(ModelUnavailable, match=f"'{rope_type}'.*cannot be re-based"):
        tiny_reader(other)


def test_a_rotation_that_cannot_be_chained_fails_its_test_whatever_it_is_called(model: Any) -> None:
    other = tiny_unlimited_ocr()
    rotary = other.get_decoder().rotary_emb
    plain = rotary.forward
    rotary.forward = lambda x, position_ids: plain(x, position_ids**2)
    with pytest.raises(ModelUnavailable, match="cannot be re-based"):
        tiny_reader(other)


def test_a_model_that_turns_its_keys_by_other_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = tiny_unlimited_ocr()
    reader = tiny_reader(other)
    adapter = reader.driver.rope
    plain = adapter._apply
    monkeypatch.setattr(adapter, "_apply", lambda q, k, cos, sin: plain(q.flip(-1), k.flip(-1), cos, sin))
    other.get_decoder().set_attn_implementation("sdpa")
    with pytest.raises(ModelUnavailable, match="differ by"):
        reader.driver._check_rotation()


def test_the_guard_bans_what_the_library_s_own_guard_bans() -> None:
    from transformers.models.unlimited_ocr.generation_unlimited_ocr import (
        UnlimitedOcrSlidingWindowNoRepeatNgramLogitsProcessor,
    )

    from models.vlm.guard import NgramGuard

    draw = torch.Generator().manual_seed(5)
    ids = torch.randint(0, 4, (60,), generator=draw).tolist()
    stock = UnlimitedOcrSlidingWindowNoRepeatNgramLogitsProcessor(3, 20)
    for length in range(1, 60):
        guard = NgramGuard(3, 20, ids[:length])
        scores = stock(torch.tensor([ids[:length]]), torch.zeros(1, 4))[0]
        assert sorted(guard.banned()) == torch.isinf(scores).nonzero().flatten().tolist()


def test_the_guard_remembers_earlier_pages_through_the_state(model: Any) -> None:
    reader = tiny_reader(model, ngram_tokens=1, ngram_window_tokens=30)
    decoder = ContinuousDecoder(reader, CONFIG)
    first = [written(page) for page in decoder.decode(PAGES.page(number) for number in (1, 2))]
    resumed = ContinuousDecoder(reader, CONFIG, decoder.state())
    rest = [written(page) for page in resumed.decode(PAGES.page(number) for number in (3, 4))]
    ids = [token for page in [*first, *rest] for token in page]
    assert len(set(ids)) == len(ids) == 24  # no token twice over four pages of six


def test_layers_with_a_memory_of_their_own_are_refused(model: Any) -> None:
    other = tiny_unlimited_ocr()
    other.get_decoder().config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(ModelUnavailable, match="layers of kind sliding_attention"):
        tiny_reader(other)
    other.get_decoder().config.layer_types = ["linear_attention", "full_attention"]
    with pytest.raises(ModelUnavailable, match="layers of kind linear_attention"):
        tiny_reader(other)


def test_no_step_copies_the_window(model: Any) -> None:
    context = context_at(tiny_reader(model), 2)
    spans = context.open_text().spans
    for number, span in zip((1, 2), spans, strict=False):
        assert span.keys.data_ptr() == context.window.block(number).keys.data_ptr()
    assert replace(RULES) == RULES
