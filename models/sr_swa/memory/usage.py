"""What the decode of one page used of its memory: attention mass, fetches, hits. Dies with the page.

Knows nothing of where tokens lie, only in which order attention weights come: window pages first, then the
references of the latest fetch, then whatever else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock, storage_bytes


@dataclass(frozen=True, eq=False)
class Fetch:
    """References fetched at one firing of the gate, best first.

    ``blocks`` are views of the reference band, one a page, keys rotated where positional: valid until the next
    fetch or page; ``block.owned()`` outlasts it. ``peak_mass`` float32 [pages] is the largest share of attention
    that each reference had at any step: summed over its tokens, mean over a layer's heads, maximum over layers.
    """

    blocks: tuple[KVBlock, ...]
    peak_mass: torch.Tensor

    @property
    def page_numbers(self) -> tuple[int, ...]:
        """The pages fetched, best first."""
        return tuple(block.page_number for block in self.blocks)

    @property
    def tokens(self) -> int:
        """Tokens fetched in all."""
        return sum(block.tokens for block in self.blocks)

    def note_mass(self, mass: Mapping[int, float]) -> None:
        """Note the share of attention that references had at a step, by page number."""
        for index, page_number in enumerate(self.page_numbers):
            self.peak_mass[index] = max(float(self.peak_mass[index]), mass.get(page_number, 0.0))

    def hits(self, hit_attention_ratio: float) -> list[int]:
        """Return the pages of which some step made use."""
        pairs = zip(self.page_numbers, self.peak_mass.tolist(), strict=True)
        return [page_number for page_number, mass in pairs if mass >= hit_attention_ratio]


class PageUse:
    """The count of one page. ``fetches`` are in the order in which the gate fired."""

    def __init__(self, geometry: Geometry) -> None:
        """Nothing has been used yet."""
        self.gate_fired = 0
        self.fetches: list[Fetch] = []
        self._layers = geometry.layers
        self._tokens: dict[int, int] = {}
        self._window_mass = torch.zeros(0, device=geometry.device)

    @property
    def references_fetched(self) -> int:
        """References fetched, all fetches together."""
        return sum(len(fetch.blocks) for fetch in self.fetches)

    @property
    def window_mass(self) -> dict[int, torch.Tensor]:
        """Attention mass [tokens] by page: sum over steps, mean over heads and layers."""
        parts = torch.split(self._window_mass, list(self._tokens.values()))
        return dict(zip(self._tokens, parts, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the masses."""
        return storage_bytes((self._window_mass, *(fetch.peak_mass for fetch in self.fetches)))

    def hits(self, hit_attention_ratio: float) -> list[int]:
        """Return the pages of all fetches that were hits, one entry a hit."""
        return [page_number for fetch in self.fetches for page_number in fetch.hits(hit_attention_ratio)]

    def watch(self, window_tokens: Mapping[int, int]) -> None:
        """Expect attention weights that begin with these window pages: page number -> tokens."""
        if self._tokens != window_tokens:
            self._tokens = dict(window_tokens)
            self._window_mass = self._window_mass.new_zeros(sum(window_tokens.values()))

    def record(self, weights: torch.Tensor) -> None:
        """Add one layer's attention ``weights`` [query_heads, steps, tokens]."""
        mean = weights.mean(0, dtype=torch.float32)
        window_tokens = len(self._window_mass)
        self._window_mass += mean[:, :window_tokens].sum(0) / self._layers
        if self.fetches:
            fetch = self.fetches[-1]
            parts = torch.split(mean[:, window_tokens:][:, : fetch.tokens], [block.tokens for block in fetch.blocks], 1)
            highest = torch.stack([part.sum(1).amax() for part in parts])
            torch.maximum(fetch.peak_mass, highest, out=fetch.peak_mass)
