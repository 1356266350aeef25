"""The oracle of SR-SWA over a decoder of transformers: everything ever seen, one mask, one pass, float64.

The decoder's modules are the library's own; its attention is replaced by one that rotates by complex numbers, for
each pair of tokens by their own distance. It shares with ours no buffers, no spans and no rotary code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from support.oracle import Oracle, Pass, _scores
from support.reference_transformer import PROMPT_IDS
from support.tiny_vlm import THETA, FeaturePages, sdpa_copy
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from models.sr_swa.geometry import Geometry
from models.sr_swa.pages import EncodedPage
from models.vlm.reader import VlmReader

NAME = "test_oracle"


class OracleModel:
    """What the oracle needs of a model: geometry, embeddings and pages, and a decoder in float64."""

    def __init__(self, model: Any, reader: VlmReader) -> None:
        self.geometry: Geometry = replace(reader.geometry, rope_theta=THETA)
        self.decoder = sdpa_copy(model).double()
        self.decoder.set_experts_implementation("eager")  # the default one has no float64
        self.embedding = self.decoder.get_input_embeddings().weight.detach()
        self.head = self.decoder.get_output_embeddings()
        ALL_ATTENTION_FUNCTIONS.register(NAME, _pairwise_attention)
        self.decoder.get_decoder().set_attn_implementation(NAME)
        self._pages = FeaturePages(self.embedding.shape[1], reader.geometry.page_tokens)

    def page(self, page_number: int, tokens: int | None = None) -> EncodedPage:
        return self._pages.page(page_number, tokens)


@dataclass
class Pairs:
    """Distances [tokens, tokens], NaN where unseen; what the layers yield is collected."""

    distance: torch.Tensor
    turn: torch.Tensor
    weights: list[torch.Tensor] = field(default_factory=list)
    queries: list[torch.Tensor] = field(default_factory=list)
    keys: list[torch.Tensor] = field(default_factory=list)


def _pairwise_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, *, pairs: Pairs, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    group = query.shape[1] // key.shape[1]
    keys, values = (part[0].repeat_interleave(group, 0) for part in (key, value))
    scores = _scores(query[0], keys, pairs.turn) / query.shape[-1] ** 0.5
    weights = scores.masked_fill(pairs.distance.isnan(), -math.inf).softmax(-1)
    pairs.weights.append(weights)
    pairs.queries.append(query[0])
    pairs.keys.append(key[0])
    return (weights @ values).transpose(0, 1).unsqueeze(0), None


@dataclass
class VlmOracle(Oracle):
    """``ask_again_tokens`` is the writer's rule: so long the gate rests after it has fired."""

    ask_again_tokens: int = 3

    def _write(self, page: int, outputs: Sequence[int]) -> torch.Tensor:
        self.references = {}
        self.first_output = sum(token.kind == "text" for token in self.tokens)
        self._add("prompt", page, [self.model.embedding[i] for i in PROMPT_IDS])
        steps, asked_at = [len(self.tokens) - 1], -self.ask_again_tokens
        for index, token_id in enumerate(outputs):
            if index - asked_at >= self.ask_again_tokens and self._uncertainty() > self.config.gate_uncertainty:
                asked_at = index
                self._ask(page)
            self._add("text", page, [self.model.embedding[token_id]])
            steps.append(len(self.tokens) - 1)
        return self._compute().logits[steps]

    def _uncertainty(self) -> float:
        probabilities = self._compute().logits[-1].softmax(-1)
        return float(-(probabilities * probabilities.log()).nansum() / math.log(len(probabilities)))

    @torch.no_grad()
    def _compute(self) -> Pass:
        geometry, count = self.model.geometry, len(self.tokens)
        positions = torch.full((count, count), math.nan, dtype=torch.float64)
        for number, row in enumerate(self.rows):
            positions[number, : len(row)] = torch.tensor(row, dtype=torch.float64)
        distance = positions - torch.tensor(self.places, dtype=torch.float64)[:, None]
        pairs_of_dims = torch.arange(0, geometry.head_dim, 2, dtype=torch.float64) / geometry.head_dim
        turn = torch.exp(1j * distance.nan_to_num()[..., None] * THETA**-pairs_of_dims)
        pairs = Pairs(distance, turn)
        hidden = self.model.decoder.get_decoder()(
            inputs_embeds=torch.stack(self.embeddings).unsqueeze(0),
            position_ids=torch.zeros((1, count), dtype=torch.int64),
            use_cache=False,
            pairs=pairs,
        )
        logits = self.model.head(hidden.last_hidden_state[0])
        return Pass(logits, torch.stack(pairs.weights), torch.stack(pairs.queries), torch.stack(pairs.keys))
