"""Other models of transformers under the same driver: page by page equals all at once, and the oracle below that.

The decoders are the library's own, tiny and random. What is not shown here: their vision towers and their weights.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.reference_transformer import PROMPT_IDS, written
from support.tiny_families import FAMILIES, tiny_family
from support.tiny_vlm import PAGE_TOKENS, FeaturePages, sdpa_copy, tiny_reader

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ModelUnavailable
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.memory.state import load_state, state_bytes

PAGES = FeaturePages()
WIDE = SrSwaConfig(window_pages=3, max_window_pages=3, top_k=0, tail_tokens=5, gate_uncertainty=1)
NARROW = SrSwaConfig(
    window_pages=2, max_window_pages=2, top_k=1, reference_tokens=3, tail_tokens=5, gate_uncertainty=0.05
)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Any:
    return tiny_family(request.param)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_pages_one_by_one_equal_all_at_once(family: Any, implementation: str) -> None:
    stock = sdpa_copy(family, implementation if family.get_decoder().config._attn_implementation else "sdpa")
    embed, decoder = stock.get_input_embeddings(), stock.get_decoder()
    pages = [PAGES.page(number).features for number in (1, 2, 3)]
    states = torch.cat([*pages, embed(torch.tensor(PROMPT_IDS))])[None]
    decoder.set_attn_implementation(implementation)
    with torch.no_grad():
        hidden = decoder(inputs_embeds=states, position_ids=torch.arange(states.shape[1])[None], use_cache=False)
        wanted = stock.get_output_embeddings()(hidden.last_hidden_state[0, -len(PROMPT_IDS) :])
    reader = tiny_reader(family, sink_ids=())
    context = AttentionContext(reader.geometry, WIDE)
    for number in (1, 2, 3):
        context.begin_page(number)
        context.window.admit(reader.prefill(PAGES.page(number), context))
    driver = reader.driver
    prompt = driver.embed_ids(PROMPT_IDS)[None]
    ours = driver.forward(prompt, [context.open_prompt(len(PROMPT_IDS))], logits_of=len(PROMPT_IDS)).logits[0]
    assert ours.std() > 0.5
    assert (ours - wanted).abs().max() <= 1e-4


def test_a_document_is_read_and_resumed_alike(family: Any) -> None:
    reader = tiny_reader(family)
    first = ContinuousDecoder(reader, NARROW)
    results = list(first.decode(PAGES.page(number) for number in range(1, 5)))
    state = load_state(state_bytes(first.state()), fingerprint="tiny", config_sha256="")
    on = list(ContinuousDecoder(reader, NARROW, state).decode([PAGES.page(5)]))
    assert on == list(first.decode([PAGES.page(5)]))
    assert len({tuple(written(result)) for result in [*results, *on]}) == 5
    assert on[0].metrics.references_fetched > 0


def test_places_on_several_axes_equal_those_of_the_model_itself() -> None:
    """A page as a grid: its tokens stand on three axes, text behind it on one (M-RoPE)."""
    qwen = tiny_family("qwen2_5_vl")
    grid = torch.tensor([[0] * PAGE_TOKENS, [0, 0, 0, 1, 1, 1, 2], [0, 1, 2, 0, 1, 2, 0]])
    residual = grid - torch.arange(PAGE_TOKENS)
    reader = tiny_reader(qwen, sink_ids=())
    reader._adapter.residual_positions = lambda page: residual  # type: ignore[method-assign]
    context = AttentionContext(reader.geometry, WIDE)
    context.begin_page(1)
    reader.prefill(PAGES.page(1), context)
    driver = reader.driver
    ours = driver.forward(driver.embed_ids(PROMPT_IDS)[None], [context.open_prompt(3)]).logits[0, -1]
    stock = sdpa_copy(qwen)
    states = torch.cat([PAGES.page(1).features, stock.get_input_embeddings()(torch.tensor(PROMPT_IDS))])[None]
    text = torch.arange(PAGE_TOKENS, PAGE_TOKENS + len(PROMPT_IDS)).expand(3, -1)
    positions = torch.cat([grid, text], dim=1)[:, None]
    with torch.no_grad():
        hidden = stock.get_decoder()(inputs_embeds=states, position_ids=positions, use_cache=False).last_hidden_state
        wanted = stock.get_output_embeddings()(hidden[0, -1])
    assert (ours - wanted).abs().max() <= 1e-4
    reader._adapter.residual_positions = lambda page: None  # type: ignore[method-assign]
    context.begin_page(2)
    reader.prefill(PAGES.page(1), context)
    in_line = driver.forward(driver.embed_ids(PROMPT_IDS)[None], [context.open_prompt(3)]).logits[0, -1]
    assert (in_line - wanted).abs().max() > 1e-2


@pytest.mark.parametrize("family_name", ["mistral", "gemma3"])
def test_models_with_layers_of_another_kind_are_refused(family_name: str) -> None:
    import transformers

    sizes = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 48,
    }
    if family_name == "mistral":
        config = transformers.MistralConfig(**sizes, num_key_value_heads=2, sliding_window=16)
        model = transformers.MistralForCausalLM(config)
    else:
        config = transformers.Gemma3TextConfig(**sizes, num_key_value_heads=2, head_dim=8, sliding_window=16)
        model = transformers.Gemma3ForCausalLM(config)
    with pytest.raises(ModelUnavailable, match="layers of kind sliding_attention"):
        tiny_reader(model.eval())
