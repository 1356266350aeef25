"""The seam in transformers: a cache layer that writes into the attention set, and the attention that reads it.

The model is called with all positions 0, so queries and keys arrive as they are before any rotation; where they
stand is the attention set's business (``models/sr_swa/attention.py``). ``SrSwaLayer.update`` writes new keys and
values where they belong and hands nothing else back: no window is copied, no mask is built. Each row of a batch is
a document with a set of its own, so ragged documents need no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from transformers.cache_utils import Cache, DynamicLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from models.sr_swa.attention import Step

ATTENTION_NAME = "tomeflow_sr_swa"
FLIGHT = "sr_swa_flight"
"""The keyword under which a forward pass carries its steps down to the attention."""


@dataclass
class Flight:
    """One forward pass under way: the step of each row. ``queries`` collects [query_heads, tokens, head_dim] a layer.

    Queries, as they are before rotation, are what the reference store is asked with.
    """

    steps: Sequence[Step]
    queries: list[list[torch.Tensor]] = field(default_factory=list)

    @property
    def held_tokens(self) -> int:
        """What the fullest row attends to beside its new tokens."""
        return max(sum(span.tokens for span in step.spans) - len(step.positions) for step in self.steps)


class SrSwaLayer(DynamicLayer):  # type: ignore[no-untyped-call]  # transformers is typed in part
    """One layer's door into the attention sets of a flight. Holds no keys; physical lengths; no registration.

    ``_layer_type`` stays None: a class that names one replaces the library's default cache in the whole process.
    """

    is_sliding = False
    is_croppable = False
    _layer_type = None

    def __init__(self, layer: int, flight: Flight) -> None:
        """Serve ``layer`` of ``flight``."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._layer = layer
        self._flight = flight

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new states [rows, kv_heads, tokens, head_dim] into each row's set; return them as they came."""
        for step, keys, values in zip(self._flight.steps, key_states, value_states, strict=True):
            step.write(self._layer, keys, values)
        return key_states, value_states

    def get_seq_length(self) -> int:
        """Return the physical length: tokens held, not tokens ever read."""
        return self._flight.held_tokens

    def get_max_length(self) -> int:
        """Return -1: the set's own buffers limit it."""
        return -1

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate nothing: the set has its buffers."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "an SR-SWA layer holds no keys of its own and cannot be reset, moved, cropped, repeated or reordered: "
            "turn pages and take back outputs through AttentionContext"
        )

    reset = offload = prefetch = reorder_cache = crop = _refuse
    batch_repeat_interleave = batch_select_indices = _refuse


def sr_swa_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend with ``query`` [rows, query_heads, tokens, head_dim], each row within its own attention set.

    New keys and values have been written by ``SrSwaLayer.update``. Returns [rows, tokens, query_heads, head_dim].

    Raises:
        ValueError: called outside a flight, or with a mask: the set is held, not masked.
    """
    flight: Flight | None = kwargs.get(FLIGHT)
    if flight is None:
        raise ValueError(
            "this model's attention was given to SR-SWA: call it through DecoderDriver, or set its attention "
            "implementation back to 'sdpa'"
        )
    if attention_mask is not None:
        raise ValueError(f"a mask {list(attention_mask.shape)} for an attention set: it is held, not masked; pass none")
    layer = module.layer_idx
    flight.queries.append(list(query))
    attended = [step.read(layer, row, scaling) for step, row in zip(flight.steps, query, strict=True)]
    return torch.stack(attended).transpose(1, 2), None


def cache_of(flight: Flight, layers: int) -> Cache:
    """Return the cache object of one forward pass; it never asks the library which layer class to use."""
    return Cache(layers=[SrSwaLayer(layer, flight) for layer in range(layers)])


def register_attention() -> None:
    """Make the attention known to transformers by name; nothing that is registered already is replaced."""
    if ATTENTION_NAME not in ALL_ATTENTION_FUNCTIONS:
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION_NAME, sr_swa_attention)
