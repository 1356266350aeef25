"""The shape of a decoder's key-value memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from models.sr_swa.rotary import RopeCode


@dataclass(frozen=True)
class Geometry:
    """The shape of a decoder's key-value memory.

    ``page_tokens`` is the capacity of one window slot; ``rope_theta`` is the base frequency of rotary positions, or the
    model's own rotary code, or None when keys carry no position. ``draft_tokens`` is how many drafted outputs are
    verified in one pass: the tail has that much room beside what it shows.
    """

    layers: int
    kv_heads: int
    head_dim: int
    page_tokens: int
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    query_heads: int | None = None
    rope_theta: float | RopeCode | None = 10_000.0
    max_positions: int = 32_768
    sink_tokens: int = 0
    prompt_tokens: int = 0
    draft_tokens: int = 0
    landmarks: Literal["mean", "tokens"] = "mean"
    """How a reference is found again: by the mean of its page's keys, or by its best single token (word memories)."""
    payload: Mapping[str, tuple[tuple[int, ...], torch.dtype]] = field(default_factory=dict)
    """What a token carries beside key and value: name -> (shape of one token, dtype). A part named ``rarity``
    decides, among tokens of equal attention mass, which ones a reference keeps."""

    @property
    def bytes_per_token(self) -> int:
        """Keys and values of one token over all layers [bytes]; the payload is not counted."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize
