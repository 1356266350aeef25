"""Runs an unmodified decoder of transformers over the steps of one or more documents.

Knows the decoder's layers and head, not what is read. What cannot work is refused when it is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from data_contracts.errors import ModelUnavailable
from models.sr_swa.attention import Step
from models.sr_swa.memory.store import group_query
from models.vlm.cache import ATTENTION_NAME, FLIGHT, Flight, cache_of, register_attention
from models.vlm.rope import RopeAdapter, head_dim_of

SERVED_LAYER_TYPES = ("full_attention", "reference_sliding_attention")
"""Other kinds (sliding, chunked, linear) keep a memory of their own, which would hide or lose window pages."""
PROBE_TOKENS = 5
PROBE_POSITION = 911


@dataclass(frozen=True, eq=False)
class Forward:
    """What one forward pass gives each row: ``logits`` [rows, tokens kept, vocabulary] and un-rotated queries."""

    logits: torch.Tensor
    queries: list[torch.Tensor]

    def query(self, row: int, token: int, kv_heads: int) -> torch.Tensor:
        """Return the query of one token [layers, kv_heads, 1, head_dim], averaged over the heads of a group."""
        return group_query(self.queries[row][:, :, token].unsqueeze(2), kv_heads)


class DecoderDriver:
    """A loaded model whose attention is SR-SWA's. Invariant: its rotary code has been proven."""

    def __init__(self, model: Any) -> None:
        """Take over the text decoder of ``model``; the vision tower keeps its attention.

        Raises:
            ModelUnavailable: the decoder has layers of another kind, or positions that cannot be re-based.
        """
        self.decoder = model.get_decoder()
        self.config = self.decoder.config
        self.head = model.get_output_embeddings()
        self.embed = model.get_input_embeddings()
        self.layers = int(self.config.num_hidden_layers)
        self.query_heads = int(self.config.num_attention_heads)
        self.kv_heads = int(getattr(self.config, "num_key_value_heads", None) or self.query_heads)
        self.head_dim = head_dim_of(self.config)
        _refuse_foreign_layers(self.decoder)
        self.rope = RopeAdapter(self.decoder)
        register_attention()
        self._check_rotation()
        self.decoder.set_attn_implementation(ATTENTION_NAME)

    @property
    def device(self) -> torch.device:
        """Where the decoder's weights lie."""
        return torch.device(self.embed.weight.device)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the decoder's states."""
        dtype: torch.dtype = self.embed.weight.dtype
        return dtype

    @torch.no_grad()
    def embed_ids(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Return embeddings [tokens, dim]."""
        embedded: torch.Tensor = self.embed(torch.tensor(token_ids, dtype=torch.int64, device=self.device))
        return embedded

    @torch.inference_mode()
    def forward(
        self,
        embeddings: torch.Tensor,
        steps: Sequence[Step],
        *,
        logits_of: int = 1,
        residual_positions: torch.Tensor | None = None,
    ) -> Forward:
        """Run ``embeddings`` [rows, tokens, dim], one step a row; return the logits of the last ``logits_of`` tokens.

        ``residual_positions`` [axes, tokens] is what a token's place on several axes (M-RoPE) has beyond the place in
        line at which the step puts it.
        """
        rows, tokens, _ = embeddings.shape
        flight = Flight(steps)
        positions = torch.zeros((rows, tokens), dtype=torch.int64, device=embeddings.device)
        if residual_positions is not None:
            positions = residual_positions.unsqueeze(1).expand(-1, rows, -1)
        output = self.decoder(
            inputs_embeds=embeddings,
            position_ids=positions,
            past_key_values=cache_of(flight, self.layers),
            use_cache=True,
            **{FLIGHT: flight},
        )
        hidden = output.last_hidden_state[:, tokens - logits_of :]
        logits = self.head(hidden) if logits_of else hidden
        queries = [torch.stack([layer[row] for layer in flight.queries]) for row in range(rows)]
        return Forward(logits, queries)

    @torch.inference_mode()
    def _check_rotation(self) -> None:
        """Compare our turn of a key with the one that the model's own first layer makes."""
        draw = torch.Generator().manual_seed(0)
        states = torch.randn((1, PROBE_TOKENS, int(self.config.hidden_size)), generator=draw).to(
            self.device, self.dtype
        )
        place = torch.arange(PROBE_TOKENS, device=self.device) * PROBE_POSITION
        unturned, turned = (_first_layer_keys(self.decoder, states, positions) for positions in (place * 0, place))
        if self.dtype == torch.float32:  # half precision rounds more than a foreign convention may differ by
            self.rope.check_against(unturned, turned, place)


class _Seen(Exception):
    """Carries the first layer's keys out of a forward pass."""


class _Probe(DynamicLayer):  # type: ignore[no-untyped-call]  # transformers is typed in part
    """A cache layer that shows the first keys it is given."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """End the forward pass."""
        raise _Seen(key_states)


def _first_layer_keys(decoder: Any, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return the keys [kv_heads, tokens, head_dim] of the first layer at ``positions``, as the model makes them."""
    cache = Cache(layers=[_Probe() for _ in range(decoder.config.num_hidden_layers)])  # type: ignore[no-untyped-call]
    try:
        decoder(inputs_embeds=states, position_ids=positions.unsqueeze(0), past_key_values=cache)
    except _Seen as seen:
        keys: torch.Tensor = seen.args[0][0].detach()
        return keys
    raise ModelUnavailable(
        f"{type(decoder).__name__} does not put its keys into a cache: SR-SWA cannot hold them. Use another model."
    )


def _refuse_foreign_layers(decoder: Any) -> None:
    config = decoder.config
    kinds = set(getattr(config, "layer_types", None) or [])
    if not kinds and getattr(config, "sliding_window", None) is not None:
        kinds = {"sliding_attention"}
    foreign = sorted(kinds - set(SERVED_LAYER_TYPES))
    if foreign:
        raise ModelUnavailable(
            f"{type(decoder).__name__} has layers of kind {', '.join(foreign)}: they keep a memory of their own that "
            f"SR-SWA cannot hold. Use a model whose layers are all of {' or '.join(SERVED_LAYER_TYPES)}."
        )
