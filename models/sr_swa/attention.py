"""Exact attention over spans that stay where they are.

RoPE knows only the difference between a query's position and a key's. So a key need not be turned again when
its page moves down one place: it is turned once, by its offset within its span, and the *query* is turned once
per span, by its distance from where that span starts. A page turn therefore moves no key and costs no rotation,
keys do not drift in half precision, and any width of the window is served by the same bytes. The price is one
rotation of the query (a few kilobytes) per span and layer.

All spans are views of their buffers; only scores are gathered in one row, so that softmax is over the whole set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import SlotBuffer
from models.sr_swa.rotary import turn_to


@dataclass(frozen=True, eq=False)
class Span:
    """Held tokens with one frame of positions: ``keys`` and ``values`` [layers, kv_heads, tokens, head_dim], views.

    A key at offset i of the frame stands at position ``origin`` + i. ``origin`` may be negative for the tail.
    """

    name: str
    origin: int
    keys: torch.Tensor
    values: torch.Tensor

    @property
    def tokens(self) -> int:
        """How many tokens the span shows."""
        return self.keys.shape[2]


@dataclass(frozen=True, eq=False)
class NewTokens:
    """Where new tokens are written: in ``buffer`` from ``index`` on, or at the indices [steps] that it lists.

    ``positions`` int64 [steps] are those that RoPE counts.
    """

    buffer: SlotBuffer
    index: int | torch.Tensor
    positions: torch.Tensor


class Step:
    """Some new tokens on their way through the layers; made by ``AttentionContext``.

    The last of ``spans`` is the one into which the ``new`` tokens are written; it shows them already. ``causal`` hides
    later new tokens from earlier ones; ``hidden`` bool [steps, tokens of the last span] says instead what each does not
    see there. ``record`` is called with the attention weights [query_heads, steps, tokens of all spans] of each layer.
    """

    def __init__(
        self,
        geometry: Geometry,
        spans: Sequence[Span],
        new: NewTokens,
        *,
        causal: bool,
        hidden: torch.Tensor | None = None,
        record: Callable[[torch.Tensor], None] | None = None,
    ) -> None:
        """Compute the turns of queries and keys, once for all layers."""
        self.spans = tuple(spans)
        self.positions = positions = new.positions
        self._geometry = geometry
        self._new = new
        self._record = record
        self._edges = list(accumulate((span.tokens for span in spans), initial=0))
        self._hidden = _later_tokens(len(positions), positions.device) if causal and len(positions) > 1 else hidden
        self._query_turn = self._key_turn = None
        if geometry.rope_theta is not None:
            origins = torch.tensor([span.origin for span in spans], device=positions.device)
            offsets = positions - origins[:, None, None]
            turn = (geometry.head_dim, geometry.rope_theta, geometry.dtype)
            self._query_turn = turn_to(offsets, *turn)
            self._key_turn = turn_to(offsets[-1, 0], *turn)

    def attend(
        self, layer: int, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None = None
    ) -> torch.Tensor:
        """Write one layer's new keys and values, and return the attention of ``query`` over the whole set.

        ``query`` [query_heads, steps, head_dim] and ``keys``, ``values`` [kv_heads, steps, head_dim] carry no
        position yet. Query head h belongs to kv head h // (query_heads / kv_heads). ``scale`` defaults to
        head_dim ** -0.5. Returns [query_heads, steps, head_dim].
        """
        self.write(layer, keys, values)
        return self.read(layer, query, scale)

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write one layer's new ``keys`` and ``values`` [kv_heads, steps, head_dim] where they belong."""
        turned = self._key_turn(keys) if self._key_turn else keys
        if isinstance(self._new.index, int):
            self._new.buffer.write_layer(layer, self._new.index, turned, values)
        else:
            self._new.buffer.scatter_layer(layer, self._new.index, turned, values)

    def read(self, layer: int, query: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Return the attention of ``query`` over the whole set, the new tokens included, as ``attend`` does."""
        query_heads, steps, head_dim = query.shape
        turned = self._query_turn(query) if self._query_turn else query.expand(len(self.spans), *query.shape)
        grouped = turned.reshape(len(self.spans), self._geometry.kv_heads, -1, head_dim)
        weights = self._weights(layer, grouped, scale or head_dim**-0.5)
        if self._record:
            self._record(weights.view(query_heads, steps, -1))
        values_dtype = self.spans[-1].values.dtype
        return self._weighted_values(layer, weights.to(values_dtype)).view(query_heads, steps, head_dim).to(query.dtype)

    def _weights(self, layer: int, grouped: torch.Tensor, scale: float) -> torch.Tensor:
        """Return softmax over all spans [kv_heads, heads of a group x steps, tokens], in float32 at least."""
        exact = torch.promote_types(grouped.dtype, torch.float32)
        scores = grouped.new_empty((*grouped.shape[1:3], self._edges[-1]), dtype=exact)
        for index, span in enumerate(self.spans):
            scores[..., self._edges[index] : self._edges[index + 1]] = grouped[index] @ span.keys[layer].mT
        scores *= scale
        if self._hidden is not None:
            steps = len(self._hidden)
            by_step = scores.view(len(scores), -1, steps, self._edges[-1])
            by_step[..., -self._hidden.shape[1] :].masked_fill_(self._hidden, -torch.inf)
        return torch.softmax(scores, dim=-1)

    def _weighted_values(self, layer: int, weights: torch.Tensor) -> torch.Tensor:
        """Return the sum over spans, each added in float32 at least: half precision would round once a span."""
        exact = torch.promote_types(weights.dtype, torch.float32)
        total = weights.new_zeros((*weights.shape[:2], self._geometry.head_dim), dtype=exact)
        for index, span in enumerate(self.spans):
            total += weights[..., self._edges[index] : self._edges[index + 1]] @ span.values[layer]
        return total


def _later_tokens(steps: int, device: torch.device) -> torch.Tensor:
    """Return bool [steps, steps]: True where the key is later than the query."""
    return torch.ones((steps, steps), dtype=torch.bool, device=device).triu(1)
