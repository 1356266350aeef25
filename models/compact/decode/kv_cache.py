"""What the decoder has written of some lines, for its next pass over them, and what it wants to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from models.compact.decode.line_batch import CONTEXT_CHARACTERS

Extend: TypeAlias = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Takes keys and values [lines, heads, steps, dim] of new steps, and returns those of all steps."""


def without_cache(key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``key`` and ``value`` [lines, heads, steps, dim] as they are: nothing was written before."""
    return key, value


@dataclass(frozen=True, eq=False)
class DecoderOutput:
    """What the decoder wants to write: ``states`` [lines, steps, 120] for the head, ``ends`` [lines, steps].

    ``pointing`` [lines, steps, frames]: log-probability of the frame each step points at.
    """

    states: torch.Tensor
    ends: torch.Tensor
    pointing: torch.Tensor

    def since(self, step: int) -> DecoderOutput:
        """Return the decoder_output from ``step`` on."""
        return DecoderOutput(self.states[:, step:], self.ends[:, step:], self.pointing[:, step:])


class KVCache:
    """Keys and values of what is written already, so that a pass computes only the steps behind it.

    A step has a slot: those before the line first, then the line's beginning and its characters. ``known`` [lines]
    says how many slots hold; what lies in the others is never looked at.
    """

    def __init__(self, layers: int, lines: int, heads: int, slots: int, head_dim: int) -> None:
        """Hold nothing, with room for ``slots``; one more takes the steps behind the end of a shorter text."""
        size = (layers, 2, lines, heads, slots + 1, head_dim)
        self.held = torch.zeros(size)
        self.known = torch.zeros(lines, dtype=torch.long)

    @property
    def slots(self) -> int:
        """How many slots there are, the one for what is never looked at included."""
        return self.held.shape[4]

    def extend(
        self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put ``key`` and ``value`` [lines, heads, steps, dim] into ``slots`` [lines, steps] and return all slots."""
        where = slots[:, None, :, None].expand_as(key)
        keys, values = self.held[layer]
        return keys.scatter_(2, where, key), values.scatter_(2, where, value)

    def keep(self, lines: Sequence[int], settled: Sequence[int]) -> None:
        """Go on with some of the lines, of which so many characters are ``settled``."""
        if len(lines) < len(self.known):
            self.held = self.held[:, :, lines]
        self.known = CONTEXT_CHARACTERS + torch.tensor(settled)
