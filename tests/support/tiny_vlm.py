"""Tiny Unlimited-OCR models with random weights, built by transformers from its own configuration classes.

What they write is nonsense, but their logits spread widely enough that a token too many, too few or in the wrong
place shows. Pages are random features: the vision tower is tested apart.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from support.reference_transformer import PROMPT_IDS, SINK_IDS, VOCABULARY, line

from data_contracts.result import Line
from models.sr_swa.pages import EncodedPage, PageImage
from models.vlm.driver import DecoderDriver
from models.vlm.reader import ReaderSetup, VlmReader
from models.vlm.writer import WritingRules

PAGE_TOKENS = 7
THETA = 100.0
RULES = WritingRules(
    sink_ids=SINK_IDS, prompt_ids=PROMPT_IDS, stop_ids=(), max_new_tokens=6, ngram_window_tokens=64, ask_again_tokens=3
)


def tiny_unlimited_ocr(*, seed: int = 0, sliding_window: int = 5, **text: Any) -> Any:
    """Return an ``UnlimitedOcrForConditionalGeneration`` with some ten thousand weights, 21 visual tokens a page."""
    from transformers import UnlimitedOcrConfig, UnlimitedOcrForConditionalGeneration

    torch.manual_seed(seed)
    config = UnlimitedOcrConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "initializer_range": 0.35,
            "n_routed_experts": 4,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "bos_token_id": 0,
            "eos_token_id": 5,
            "sliding_window": sliding_window,
            "rope_parameters": {"rope_type": "default", "rope_theta": THETA},
        }
        | text,
        vision_config={
            "sam_config": {
                "hidden_size": 16,
                "output_channels": 8,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "image_size": 256,
                "mlp_dim": 32,
                "global_attn_indexes": [1],
                "window_size": 4,
                "downsample_channels": [8, 16],
                "initializer_range": 0.1,
            },
            "encoder_config": {
                "hidden_size": 16,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": 256,
                "patch_size": 64,
            },
        },
        image_token_id=6,
    )
    return UnlimitedOcrForConditionalGeneration(config).eval()


def sdpa_copy(model: Any, implementation: str = "sdpa") -> Any:
    """Return a copy of ``model`` as transformers knows it, whatever attention it had been given."""
    stock = copy.deepcopy(model)
    stock.get_decoder().set_attn_implementation(implementation)
    return stock


@dataclass
class FeaturePages:
    """A ``PageAdapter`` whose pages are random features, a pure function of the page number."""

    dim: int = 32
    tokens: int = PAGE_TOKENS

    def page(self, page_number: int, tokens: int | None = None) -> EncodedPage:
        draw = torch.Generator().manual_seed(1000 + page_number)
        features = torch.randn((tokens or self.tokens, self.dim), generator=draw)
        return EncodedPage(page_number, 10, 10, 72.0, features=features)

    def encode(self, image: PageImage) -> EncodedPage:
        return self.page(image.page_number)

    def lines(self, page: EncodedPage, token_ids: Sequence[int], confidences: Sequence[float]) -> tuple[Line, ...]:
        assert len(token_ids) == len(confidences)
        return (line(list(token_ids)),)

    def residual_positions(self, page: EncodedPage) -> torch.Tensor | None:
        return None


def tiny_reader(model: Any, rules: WritingRules = RULES, **changes: Any) -> VlmReader:
    """Return a reader of random pages; ``changes`` go into the rules, but for the reader's own arguments."""
    setup = ReaderSetup("tiny", changes.pop("page_tokens", PAGE_TOKENS))
    own = {name: changes.pop(name) for name in ("drafter", "watch") if name in changes}
    dim = model.get_input_embeddings().weight.shape[1]
    return VlmReader(
        DecoderDriver(model),
        replace(rules, **changes),
        FeaturePages(dim),
        setup,
        **own,
    )
