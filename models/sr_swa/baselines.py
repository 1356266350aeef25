"""What other ways of reading page after page keep, allocated for real: to be measured beside SR-SWA.

Each baseline is a cache policy over one preallocated buffer and reads the same pages: ``visual_tokens`` of the
image, then ``text_tokens`` of output. None has a store, none fetches, none is used for reading documents.

| baseline | keeps | source |
|---|---|---|
| ``FullCache`` | everything | - |
| ``ReferenceSlidingCache`` | the visual tokens of all pages, the last output tokens | R-SWA, arXiv 2606.23050 |
| ``StreamingCache`` | the first tokens and the last ones, whatever they are | StreamingLLM, arXiv 2309.17453 |
| ``PageLoop`` | one page, forgotten at the next | - |
| ``ring_attention_tokens`` | everything, spread over devices; a formula only | Ring Attention, arXiv 2310.01889 |

Where a baseline's tokens stand is not modelled: neither its bytes nor the time of a step depend on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import torch

from models.sr_swa.attention import NewTokens, Span, Step
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock, SlotBuffer

STREAMING_SINK_TOKENS = 4
"""As in the paper: four first tokens take the attention that has nowhere to go."""
RING_BLOCKS_PER_DEVICE = 2
"""A device holds its own share of the keys and values and the one that its neighbour is sending."""


@dataclass(frozen=True)
class Workload:
    """What is read: pages of ``geometry.page_tokens`` visual and ``text_tokens`` output tokens, after a prompt.

    ``tail_tokens`` is the output that R-SWA keeps; ``budget_tokens`` what SR-SWA holds on the device, which the
    streaming cache is given as well.
    """

    geometry: Geometry
    text_tokens: int
    tail_tokens: int
    budget_tokens: int

    @property
    def page_tokens(self) -> int:
        """Visual and output tokens of one page."""
        return self.geometry.page_tokens + self.text_tokens


class Baseline(ABC):
    """A cache policy over one buffer. Invariant: the first ``held_tokens`` tokens of the buffer are valid.

    The buffer is made for ``pages`` pages; reading more raises ``ValueError`` where the policy keeps growing.
    """

    name: ClassVar[str]

    def __init__(self, workload: Workload, pages: int, layers: int | None = None) -> None:
        """Allocate for ``pages`` pages and ``layers`` layers (all of the geometry's, unless given)."""
        self.geometry = replace(workload.geometry, layers=layers or workload.geometry.layers, payload={})
        self.workload = workload
        self.pages_read = 0
        self.buffer = SlotBuffer(self.geometry, self.tokens_after(workload, pages))

    @classmethod
    @abstractmethod
    def tokens_after(cls, workload: Workload, pages: int) -> int:
        """Return the tokens held once ``pages`` pages have been read: the policy's memory, as a formula."""

    @abstractmethod
    def _write(self, page: KVBlock) -> None:
        """Take in ``page``, the ``pages_read``-th (0-based)."""

    @property
    def held_tokens(self) -> int:
        """Tokens that the next step attends to."""
        return self.tokens_after(self.workload, self.pages_read)

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values, as allocated."""
        return self.buffer.nbytes

    def read_page(self, page: KVBlock) -> None:
        """Take in one page: its visual tokens, then its output tokens [layers, kv_heads, tokens, head_dim]."""
        if page.tokens != self.workload.page_tokens:
            raise ValueError(
                f"page {page.page_number} has {page.tokens} tokens, the workload says {self.workload.page_tokens}"
            )
        self._write(page)
        self.pages_read += 1

    def open_step(self, pages: int) -> Step:
        """Begin one output token as after ``pages`` pages: it takes the last place held then, and attends to all.

        The arithmetic is SR-SWA's own, so that a comparison of times compares what is held.
        """
        held = self.buffer.view(0, self.tokens_after(self.workload, pages))
        position = torch.tensor([held.tokens - 1], device=held.keys.device)
        span = Span(self.name, 0, held.keys, held.values)
        new = NewTokens(self.buffer, held.tokens - 1, position)
        return Step(self.geometry, [span], new, causal=False)


class FullCache(Baseline):
    """Keeps everything: the prompt, then page after page."""

    name = "full cache"

    @classmethod
    def tokens_after(cls, workload: Workload, pages: int) -> int:
        """Prompt and all tokens of all pages."""
        return workload.geometry.prompt_tokens + pages * workload.page_tokens

    def _write(self, page: KVBlock) -> None:
        self.buffer.write(page, self.held_tokens)


class ReferenceSlidingCache(Baseline):
    """Keeps the visual tokens of all pages and the last ``tail_tokens`` of output (R-SWA).

    Laid out as prompt | tail | visual tokens, so that only the end grows. The real one is prefilled with all
    pages before the first step; here pages come one by one, which is kind to it.
    """

    name = "R-SWA"

    @classmethod
    def tokens_after(cls, workload: Workload, pages: int) -> int:
        """Prompt, tail and the visual tokens of all pages."""
        return workload.geometry.prompt_tokens + workload.tail_tokens + pages * workload.geometry.page_tokens

    def _write(self, page: KVBlock) -> None:
        visual_tokens = self.workload.geometry.page_tokens
        self.buffer.write(page.slice(0, visual_tokens), self.held_tokens)
        tail_tokens = min(self.workload.tail_tokens, self.workload.text_tokens)
        tail = page.slice(page.tokens - tail_tokens, page.tokens)
        self.buffer.write(tail, self.workload.geometry.prompt_tokens)


class StreamingCache(Baseline):
    """Keeps the first four tokens and the last ones up to SR-SWA's budget; nothing is ever fetched."""

    name = "StreamingLLM-style"

    @classmethod
    def tokens_after(cls, workload: Workload, pages: int) -> int:
        """All tokens until the budget is full, then the budget."""
        return min(workload.geometry.prompt_tokens + pages * workload.page_tokens, workload.budget_tokens)

    def __init__(self, workload: Workload, pages: int, layers: int | None = None) -> None:
        """Start with the prompt in place."""
        super().__init__(workload, pages, layers)
        self._seen_tokens = workload.geometry.prompt_tokens

    def _write(self, page: KVBlock) -> None:
        start = 0
        while start < page.tokens:
            place = self._place(self._seen_tokens)
            taken = min(page.tokens - start, self.buffer.capacity_tokens - place)
            self.buffer.write(page.slice(start, start + taken), place)
            start += taken
            self._seen_tokens += taken

    def _place(self, token: int) -> int:
        """Return where the ``token``-th token of the document goes: behind the sinks, round and round."""
        if token < self.workload.budget_tokens:
            return token
        ring_tokens = self.workload.budget_tokens - STREAMING_SINK_TOKENS
        return STREAMING_SINK_TOKENS + (token - STREAMING_SINK_TOKENS) % ring_tokens


class PageLoop(Baseline):
    """Reads each page alone: prompt, the page's image and its own output; what was before is gone."""

    name = "page loop"

    @classmethod
    def tokens_after(cls, workload: Workload, pages: int) -> int:
        """Prompt and one page."""
        return workload.geometry.prompt_tokens + min(pages, 1) * workload.page_tokens

    def _write(self, page: KVBlock) -> None:
        self.buffer.write(page, self.workload.geometry.prompt_tokens)


BASELINES: tuple[type[Baseline], ...] = (FullCache, ReferenceSlidingCache, StreamingCache, PageLoop)


def ring_attention_tokens(workload: Workload, pages: int, devices: int) -> int:
    """Return the tokens that each of ``devices`` devices holds while blocks of the full cache go round."""
    return RING_BLOCKS_PER_DEVICE * ceil(FullCache.tokens_after(workload, pages) / devices)
