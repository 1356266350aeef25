"""Keys and values: blocks of them, and the fixed buffers in which they live.

A block is a *view* or a copy, as its maker says; a buffer is allocated once and written by position. Both
have one shape for every decoder geometry: [layers, kv_heads, tokens, head_dim]. Knows nothing of pages in a
window, of rotation or of attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import torch

if TYPE_CHECKING:
    from models.sr_swa.geometry import Geometry

_Change: TypeAlias = Callable[[torch.Tensor, int], torch.Tensor]
"""A part of a block and the axis of its tokens -> the changed part."""


@dataclass(frozen=True, eq=False)
class KVBlock:
    """Keys and values of some tokens of one page. Invariant: all parts agree on the number of tokens.

    ``keys`` and ``values`` are [layers, kv_heads, tokens, head_dim]. ``positions`` [tokens] are offsets within
    the page, in whole tokens; two tokens may share one. ``payload`` is what a token carries beside key and value:
    name -> [tokens, ...]. Whether the keys are rotated is said by whoever hands a block out.
    """

    page_number: int
    keys: torch.Tensor
    values: torch.Tensor
    positions: torch.Tensor
    payload: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together.

        Raises:
            ValueError: keys, values, positions or payload disagree; the message has the shapes.
        """
        if self.keys.ndim != 4 or self.keys.shape != self.values.shape:
            raise ValueError(
                f"page {self.page_number}: keys {list(self.keys.shape)} and values {list(self.values.shape)} "
                "must both be [layers, kv_heads, tokens, head_dim]"
            )
        if self.positions.shape != (self.tokens,):
            raise ValueError(
                f"page {self.page_number}: positions {list(self.positions.shape)} for {self.tokens} tokens; "
                "give one position a token"
            )
        wrong = {name: list(part.shape) for name, part in self.payload.items() if part.shape[:1] != (self.tokens,)}
        if wrong:
            raise ValueError(f"page {self.page_number}: payload {wrong} for {self.tokens} tokens; lead with the tokens")

    @property
    def tokens(self) -> int:
        """How many tokens the block holds."""
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes kept alive by this block: whole storages, so that a small slice of a large buffer counts fully."""
        return storage_bytes((self.keys, self.values, self.positions, *self.payload.values()))

    def slice(self, start: int, stop: int) -> KVBlock:
        """Return tokens ``start`` to ``stop`` as a view: the storage stays alive with it."""
        if not 0 <= start <= stop <= self.tokens:
            raise ValueError(f"page {self.page_number}: tokens {start}:{stop} of a block of {self.tokens}")
        return self._map_tokens(lambda part, axis: part.narrow(axis, start, stop - start))

    def take(self, index: torch.Tensor) -> KVBlock:
        """Return the tokens at ``index`` [tokens], in that order, as a copy that keeps nothing else alive."""
        return self._map_tokens(lambda part, axis: part.index_select(axis, index.to(part.device)))

    def owned(self) -> KVBlock:
        """Return a contiguous copy with storage of its own."""
        return self._map_tokens(lambda part, _: part.clone(memory_format=torch.contiguous_format))

    def to(self, device: str | torch.device, dtype: torch.dtype | None = None) -> KVBlock:
        """Return the block on ``device``, keys and values as ``dtype``; the payload keeps its types."""
        moved = self._map_tokens(lambda part, _: part.to(device))
        return replace(moved, keys=moved.keys.to(dtype), values=moved.values.to(dtype)) if dtype else moved

    @staticmethod
    def join(blocks: Sequence[KVBlock]) -> KVBlock:
        """Return the tokens of ``blocks``, one block after another, as a copy; the page number is the first one's.

        Raises:
            ValueError: no blocks, or blocks with different payloads.
        """
        if not blocks:
            raise ValueError("no blocks to join: an empty block has no geometry")
        names = sorted(blocks[0].payload)
        if any(sorted(block.payload) != names for block in blocks):
            raise ValueError(f"blocks with different payloads: {[sorted(block.payload) for block in blocks]}")
        return KVBlock(
            page_number=blocks[0].page_number,
            keys=torch.cat([block.keys for block in blocks], dim=2),
            values=torch.cat([block.values for block in blocks], dim=2),
            positions=torch.cat([block.positions for block in blocks]),
            payload={name: torch.cat([block.payload[name] for block in blocks]) for name in names},
        )

    def _map_tokens(self, change: _Change) -> KVBlock:
        return replace(
            self,
            keys=change(self.keys, 2),
            values=change(self.values, 2),
            positions=change(self.positions, 0),
            payload={name: change(part, 0) for name, part in self.payload.items()},
        )


class SlotBuffer:
    """Room for a fixed number of tokens. Invariant: allocated once, so its bytes never change.

    Tokens are written by position and read as views; nothing is ever appended by copying what is there. Who owns
    the buffer knows which of its tokens are valid.
    """

    def __init__(self, geometry: Geometry, capacity_tokens: int) -> None:
        """Allocate on the geometry's device; the memory is zero, never garbage."""
        shape = (geometry.layers, geometry.kv_heads, capacity_tokens, geometry.head_dim)
        self.keys = torch.zeros(shape, dtype=geometry.dtype, device=geometry.device)
        self.values = torch.zeros(shape, dtype=geometry.dtype, device=geometry.device)
        self.positions = torch.zeros(capacity_tokens, dtype=torch.int64, device=geometry.device)
        self.payload = {
            name: torch.zeros((capacity_tokens, *token_shape), dtype=dtype, device=geometry.device)
            for name, (token_shape, dtype) in geometry.payload.items()
        }

    @property
    def capacity_tokens(self) -> int:
        """How many tokens fit."""
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and payload, as allocated."""
        return storage_bytes((self.keys, self.values, *self.payload.values()))

    @property
    def bookkeeping_bytes(self) -> int:
        """Bytes of the positions, as allocated."""
        return storage_bytes((self.positions,))

    def write(self, block: KVBlock, start: int = 0) -> None:
        """Copy ``block`` to the positions from ``start`` on.

        Raises:
            ValueError: it does not fit, has another geometry, or lacks part of the payload.
        """
        stop = start + block.tokens
        self._refuse_overflow(start, stop)
        if block.keys.shape[:2] != self.keys.shape[:2] or block.keys.shape[3] != self.keys.shape[3]:
            raise ValueError(
                f"page {block.page_number}: block {list(block.keys.shape)} for a buffer of {list(self.keys.shape)} "
                "[layers, kv_heads, tokens, head_dim]: another geometry"
            )
        if missing := sorted(set(self.payload) - set(block.payload)):
            raise ValueError(f"page {block.page_number}: the geometry promises a payload {missing}, the block has none")
        self.keys[:, :, start:stop] = block.keys
        self.values[:, :, start:stop] = block.values
        self.positions[start:stop] = block.positions
        for name, part in self.payload.items():
            part[start:stop] = block.payload[name]

    def write_layer(self, layer: int, start: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Copy ``keys`` and ``values`` [kv_heads, tokens, head_dim] of one layer to the positions from ``start`` on."""
        stop = start + keys.shape[1]
        self._refuse_overflow(start, stop)
        self.keys[layer, :, start:stop] = keys
        self.values[layer, :, start:stop] = values

    def scatter_layer(self, layer: int, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Copy ``keys`` and ``values`` [kv_heads, tokens, head_dim] of one layer to ``places`` [tokens]."""
        self.keys[layer].index_copy_(1, places, keys)
        self.values[layer].index_copy_(1, places, values)

    def view(self, start: int, stop: int, page_number: int = 0) -> KVBlock:
        """Return tokens ``start`` to ``stop`` as a view, valid until they are written over."""
        self._refuse_overflow(start, stop)
        return KVBlock(
            page_number=page_number,
            keys=self.keys[:, :, start:stop],
            values=self.values[:, :, start:stop],
            positions=self.positions[start:stop],
            payload={name: part[start:stop] for name, part in self.payload.items()},
        )

    def _refuse_overflow(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.capacity_tokens:
            raise ValueError(
                f"tokens {start}:{stop} of a buffer for {self.capacity_tokens}: "
                "give the geometry more page_tokens or the model fewer tokens"
            )


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of all distinct storages behind ``tensors``: what they keep alive, not what they show."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
