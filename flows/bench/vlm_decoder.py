"""The decoder of transformers itself, unmodified, run three times: full cache, the library's R-SWA cache, SR-SWA.

The two baselines' caches are filled with random keys and values, SR-SWA reads its pages. Weights are random, so
nothing here speaks of accuracy.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from models.sr_swa.context import AttentionContext
    from models.vlm.reader import VlmReader

PAGE_TOKENS = 273
WARM_UP_STEPS = 3
EXPERTS = 8
"""Experts that are allocated, of 64: a token goes through six of them either way."""
VOCABULARY = 4096
"""Of 129,280: the head is the same for all contenders and no part of what is compared."""
DRAFT_TOKENS = 8
DRAFT_OUTPUTS = 96
DRAFT_ERROR_RATIOS = (0.0, 0.02, 0.05, 0.1, 0.3)
MS_PER_SECOND = 1000.0
SEED = 1
LOST, GATE = 1.0, 1 - 1e-9
"""The gate fires when asked with the first, and never on what the decoder writes: one fetch a page is timed."""


@dataclass(frozen=True)
class Setup:
    """What is measured, and where."""

    depths: tuple[int, ...]
    layers: int
    device: str
    dtype: str
    window_pages: int
    text_tokens: int
    steps: int


@dataclass
class Contender:
    """One way of holding pages; figures by depth [pages]. ``kv_bytes`` are of the layers run."""

    name: str
    step_ms: dict[int, float] = field(default_factory=dict)
    kv_bytes: dict[int, int] = field(default_factory=dict)
    peak_device_bytes: dict[int, int] = field(default_factory=dict)


class RandomDecoder:
    """A text decoder with an embedding and a head: all that ``DecoderDriver`` asks of a model."""

    def __init__(self, decoder: Any, head: Any) -> None:
        """Join them."""
        self.decoder, self.head = decoder, head

    def get_decoder(self) -> Any:
        """Return the decoder."""
        return self.decoder

    def get_output_embeddings(self) -> Any:
        """Return the head."""
        return self.head

    def get_input_embeddings(self) -> Any:
        """Return the embedding."""
        return self.decoder.embed_tokens


def random_decoder(setup: Setup) -> RandomDecoder:
    """Return the text decoder of Unlimited-OCR with random weights, as many layers and experts as asked for."""
    import torch
    from transformers import UnlimitedOcrTextConfig
    from transformers.models.unlimited_ocr.modeling_unlimited_ocr import UnlimitedOcrTextModel

    from models.vlm.loading import refuse_other_version, steady_allocator

    refuse_other_version()
    steady_allocator(setup.device)
    torch.manual_seed(SEED)
    config = UnlimitedOcrTextConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=setup.layers,
        n_routed_experts=EXPERTS,
        mlp_layer_types=["sparse"] * setup.layers,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )
    config._attn_implementation = "sdpa"
    dtype = getattr(torch, setup.dtype)
    decoder: Any = UnlimitedOcrTextModel(config)
    decoder = decoder.to(setup.device, dtype).eval()
    head = torch.nn.Linear(config.hidden_size, VOCABULARY, bias=False).to(setup.device, dtype)
    return RandomDecoder(decoder, head)


def measure_stock(setup: Setup, model: RandomDecoder, name: str) -> Contender:
    """Time steps behind caches of the library that are filled with random states."""
    import torch
    from transformers import DynamicCache

    config = model.decoder.config
    model.decoder.set_attn_implementation("sdpa")
    contender, embedded = Contender(name), model.decoder.embed_tokens.weight[:1][None]
    for depth in setup.depths:
        _forget_peak(setup.device)
        held_tokens = depth * (PAGE_TOKENS if name == "R-SWA" else PAGE_TOKENS + setup.text_tokens)
        cache = DynamicCache(config=config) if name == "R-SWA" else DynamicCache()
        states = torch.randn(
            (1, config.num_key_value_heads, held_tokens, config.head_dim),
            dtype=embedded.dtype,
            device=setup.device,
        )
        for layer in range(setup.layers):
            cache.update(states.clone(), states.clone(), layer)
        del states
        position = held_tokens

        def step(cache: DynamicCache = cache) -> None:
            nonlocal position
            with torch.inference_mode():
                where = torch.tensor([[position]], device=setup.device)
                output = model.decoder(inputs_embeds=embedded, position_ids=where, past_key_values=cache)
                model.head(output.last_hidden_state)
            position += 1

        contender.step_ms[depth] = _median_ms(step, setup)
        contender.kv_bytes[depth] = sum(_layer_bytes(layer) for layer in cache.layers)
        _note_peak(contender, depth, setup.device)
        del cache, step
    return contender


def measure_sr_swa(setup: Setup, model: RandomDecoder) -> tuple[Contender, float]:
    """Read pages up to each depth and time steps there; return also the median duration of a page turn [ms]."""
    import torch

    from models.sr_swa.pages import EncodedPage

    reader = _reader(model, outputs=1, draft_tokens=0)
    context = _context(reader, setup.window_pages)
    contender, turns_ms = Contender("SR-SWA"), []
    dim = model.decoder.config.hidden_size
    draw = torch.Generator().manual_seed(SEED)
    _forget_peak(setup.device)
    for number in range(1, max(setup.depths) + 1):
        page = EncodedPage(number, 1, 1, 72.0, features=torch.randn((PAGE_TOKENS, dim), generator=draw))
        turns_ms.append(_turn_ms(context, number, setup.device))
        context.window.admit(reader.prefill(page, context))
        turns_ms[-1] += _fetch_ms(context, reader, setup.device)
        context.finish_page(reader.decode(page, context))
        if number in setup.depths:
            context.begin_page(number)
            contender.step_ms[number] = _median_ms(lambda: _step(reader, context), setup)
            contender.kv_bytes[number] = context.live_kv_bytes + context.store.nbytes
            _note_peak(contender, number, setup.device)
    return contender, statistics.median(turns_ms[setup.window_pages :] or turns_ms)


def count_passes(model: RandomDecoder) -> dict[float, float]:
    """Return forward passes a page with drafts of which a share is wrong, drawn at random."""
    import random

    import torch

    from models.sr_swa.pages import EncodedPage

    draw, passes = random.Random(SEED), {}
    features = torch.randn((PAGE_TOKENS, model.decoder.config.hidden_size), generator=torch.Generator().manual_seed(2))
    page = EncodedPage(1, 1, 1, 72.0, features=features)
    plain = _write(_reader(model, DRAFT_OUTPUTS, draft_tokens=0), page)
    for error_ratio in DRAFT_ERROR_RATIOS:
        draft = [(token + 1) % VOCABULARY if draw.random() < error_ratio else token for token in plain]
        reader = _reader(model, DRAFT_OUTPUTS, DRAFT_TOKENS, draft)
        drafted = _write(reader, page)
        if drafted != plain:
            print("note: a near-tie was decided otherwise with a draft than without", file=sys.stderr)
        passes[error_ratio] = float(reader.passes)
    return passes


def _write(reader: VlmReader, page: Any) -> tuple[int, ...]:
    context = _context(reader, 1)
    context.begin_page(1)
    context.window.admit(reader.prefill(page, context))
    return reader.decode(page, context).token_ids


def _reader(model: RandomDecoder, outputs: int, draft_tokens: int, draft: Sequence[int] = ()) -> VlmReader:
    from models.vlm.driver import DecoderDriver
    from models.vlm.reader import ReaderSetup, VlmReader
    from models.vlm.writer import WritingRules

    rules = WritingRules(
        sink_ids=(0,),
        prompt_ids=tuple(range(2, 17)),
        stop_ids=(),
        max_new_tokens=outputs,
        ngram_tokens=2,  # random weights would soon write one token for ever
        draft_tokens=draft_tokens,
    )
    adapter: Any = _NoLines()
    return VlmReader(
        DecoderDriver(model), rules, adapter, ReaderSetup("random", PAGE_TOKENS), drafter=lambda page: draft
    )


class _NoLines:
    """Random weights write no lines."""

    def lines(self, page: Any, token_ids: Sequence[int], confidences: Sequence[float]) -> tuple[()]:
        return ()

    def residual_positions(self, page: Any) -> None:
        return None


def _context(reader: VlmReader, window_pages: int) -> AttentionContext:
    from data_contracts.config import SrSwaConfig
    from models.sr_swa.context import AttentionContext

    return AttentionContext(
        reader.geometry, SrSwaConfig(window_pages=window_pages, max_window_pages=window_pages, gate_uncertainty=GATE)
    )


def _turn_ms(context: AttentionContext, page_number: int, device: str) -> float:
    """Evict and compress, and begin the next page; keys of the pages that stay are not moved."""

    def turn() -> None:
        context.begin_page(page_number)
        context.make_room()

    return _timed_ms(turn, device)


def _fetch_ms(context: AttentionContext, reader: VlmReader, device: str) -> float:
    """Score the store and bring the best references to their places."""
    import torch

    geometry = reader.geometry
    query = torch.randn((geometry.layers, geometry.kv_heads, 1, geometry.head_dim), device=device)

    return _timed_ms(lambda: context.fetch(query, LOST), device)


def _step(reader: VlmReader, context: AttentionContext) -> None:
    driver = reader.driver
    driver.forward(driver.embed_ids([7])[None], [context.open_text()])


def _median_ms(step: Callable[[], None], setup: Setup) -> float:
    timed = [_timed_ms(step, setup.device) for _ in range(WARM_UP_STEPS + setup.steps)]
    return statistics.median(timed[WARM_UP_STEPS:])


def _timed_ms(action: Callable[[], object], device: str) -> float:
    _wait(device)
    started = time.perf_counter()
    action()
    _wait(device)
    return (time.perf_counter() - started) * MS_PER_SECOND


def _wait(device: str) -> None:
    """Wait until a GPU has done what it was asked for."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def _layer_bytes(layer: Any) -> int:
    """Return the bytes that a layer of a library's cache keeps alive."""
    from models.sr_swa.memory.kv import storage_bytes

    names = ("keys", "values", "prefill_keys", "prefill_values")
    parts: list[torch.Tensor | None] = [getattr(layer, name, None) for name in names]
    return storage_bytes(part for part in parts if part is not None)


def _forget_peak(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _note_peak(contender: Contender, depth: int, device: str) -> None:
    if device == "cuda":
        import torch

        contender.peak_device_bytes[depth] = torch.cuda.max_memory_allocated()


def card(device: str) -> str:
    """Return what computes, in words."""
    import torch

    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{device} with {torch.get_num_threads()} threads, torch {torch.__version__}"
