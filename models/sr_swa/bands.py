"""Where the tokens of the attention set stand: bands of positions, fixed at load, the same on every page.

    sink | references | window | prompt | tail | new text

The reference band is reserved even when it is empty and the window band is sized for the widest window, so that
neither the gate nor a change of width ever moves anything. The newest page always stands at the end of the window
band. No position grows with the number of pages. Departs from R-SWA (arXiv 2606.23050), whose positions do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Self

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ConfigError
from models.sr_swa.controller import DENSER_FACTOR
from models.sr_swa.geometry import Geometry


@dataclass(frozen=True)
class Bands:
    """Ranges of positions, one behind the other without gaps. Invariant: all below the model's ``max_positions``."""

    sink: range
    references: range
    window: range
    prompt: range
    tail: range
    text: range
    page_tokens: int

    @classmethod
    def of(cls, geometry: Geometry, config: SrSwaConfig) -> Self:
        """Lay the bands out.

        Raises:
            ConfigError: they leave no position for new text.
        """
        sizes_tokens = (
            geometry.sink_tokens,
            config.top_k * config.reference_tokens * DENSER_FACTOR,
            max(config.window_pages, config.max_window_pages) * geometry.page_tokens,
            geometry.prompt_tokens,
            config.tail_tokens,
        )
        edges = list(accumulate(sizes_tokens, initial=0))
        if geometry.rope_theta is not None and edges[-1] >= geometry.max_positions:
            raise ConfigError(
                f"the attention set needs {edges[-1]} positions (sink, references, widest window, prompt, tail: "
                f"{', '.join(map(str, sizes_tokens))}), the model has {geometry.max_positions}: "
                "lower max_window_pages, or top_k times reference_tokens"
            )
        sink, references, window, prompt, tail = (range(start, stop) for start, stop in pairwise(edges))
        text = range(edges[-1], geometry.max_positions)
        return cls(sink, references, window, prompt, tail, text, geometry.page_tokens)

    def page_start(self, pages_behind: int) -> int:
        """Return the first position of the window page that has ``pages_behind`` held pages behind it."""
        start = self.window.stop - (pages_behind + 1) * self.page_tokens
        assert start >= self.window.start, f"{pages_behind + 1} pages in a band of {len(self.window)} tokens"
        return start
