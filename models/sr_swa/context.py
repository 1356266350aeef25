"""The one place that assembles the attention set A(p, t) = sink + references + window + prompt + tail.

Every part is a named object with buffers of its own, allocated at load; a step writes by position into one of
them and attends to views of all. The loop (``continuous.py``) turns pages; a model opens steps and asks for
references. Knows nothing of what a page says, of files or of clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from data_contracts.config import SrSwaConfig
from data_contracts.errors import DecodeFailed
from data_contracts.result import PageMetrics
from models.sr_swa.attention import NewTokens, Span, Step
from models.sr_swa.bands import Bands
from models.sr_swa.gate import need_cross_page_context
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock, SlotBuffer
from models.sr_swa.memory.state import JSON, Snapshot
from models.sr_swa.memory.store import Reference, Selector, SparseReferenceStore
from models.sr_swa.memory.tail import OutputTail
from models.sr_swa.memory.usage import Fetch, PageUse
from models.sr_swa.memory.window import SlidingWindow, SlotSource
from models.sr_swa.pages import Decoding
from models.sr_swa.rotary import rotate_in_place


class AttentionContext:
    """What one decoder attends to. Invariant: no buffer grows with the pages or the outputs.

    ``window``, ``store``, ``tail``, ``sink``, ``references`` and ``prompt`` are its parts. ``notes`` is what a model
    itself carries from page to page (JSON, bounded by the model); it travels in the state.
    """

    def __init__(
        self,
        geometry: Geometry,
        config: SrSwaConfig,
        select: Selector = SparseReferenceStore.select_relevant,
        slots: SlotSource | None = None,
    ) -> None:
        """Allocate everything for ``geometry``; the window's slots come from ``slots``, if given.

        Raises:
            ConfigError: the attention set does not fit into the model's positions.
        """
        bare = replace(geometry, payload={})
        self.geometry = geometry
        self.config = config
        self.bands = Bands.of(geometry, config)
        self.window = SlidingWindow(geometry, config.window_pages, slots)
        self.references = SlotBuffer(geometry, config.top_k * config.reference_tokens)
        self.sink = SlotBuffer(bare, geometry.sink_tokens)
        self.prompt = SlotBuffer(bare, geometry.prompt_tokens)
        self.tail = OutputTail(bare, config.tail_tokens, geometry.draft_tokens)
        self.store = SparseReferenceStore(
            geometry, config.reference_pages, config.reference_tokens, int8=config.store_int8
        )
        self.notes: dict[str, Any] = {}
        self._select = select
        self._sink_tokens = 0
        self._prompt_tokens = 0
        self._use = PageUse(geometry)
        self._still: tuple[Span, ...] | None = None
        self._leaving: tuple[KVBlock, torch.Tensor] | None = None
        self._unconfirmed: list[torch.Tensor] = []

    # What a model may ask for

    @property
    def page_number(self) -> int:
        """The page being read."""
        return self.window.current_page

    @property
    def pages_before(self) -> int:
        """Window pages that stand before the page being read, when the window is full."""
        return self.window.window_pages - 1 - self.lookahead_pages

    @property
    def lookahead_pages(self) -> int:
        """Window pages that stand after the page being read; fewer than configured in a window that has shrunk."""
        return min(self.config.lookahead_pages, self.window.window_pages - 1)

    @property
    def needs_sink(self) -> bool:
        """Whether the model's first tokens are still to be written (``open_sink``), once a document."""
        return self._sink_tokens < self.geometry.sink_tokens

    def open_sink(self, tokens: int) -> Step:
        """Begin the model's first tokens, never evicted; they see one another."""
        start, self._sink_tokens = self._sink_tokens, self._sink_tokens + tokens
        new = NewTokens(self.sink, start, self._positions(self.bands.sink.start + start, tokens))
        return self._step([], "sink", new)

    def open_page(self, page_number: int, tokens: int) -> Step:
        """Begin the prefill of a page into a free slot; it sees the sink, pages before it, and itself.

        Of the pages before it, as many as will stand before it while it is read: so a page that is prefilled ahead
        of its turn and one that the next chunk prefills again are the same.
        """
        buffer = self.window.open(page_number, tokens)
        before = [number for number in self.window.page_numbers if number < page_number]
        before = before[max(0, len(before) - self.pages_before) :]
        spans = [self._page_span(number, len(before) - index) for index, number in enumerate(before)]
        start = self.bands.page_start(0)
        new = NewTokens(buffer, 0, self._positions(start, tokens))
        return self._step([*spans, *self._sink_span()], "page", new, origin=start)

    def page_block(self, page_number: int) -> KVBlock:
        """Return a window page as a view, keys rotated by their offset within the page: what ``prefill`` may return."""
        return self.window.block(page_number)

    def open_prompt(self, tokens: int) -> Step:
        """Begin or continue the instruction tokens, behind the window; written again for each page."""
        start, self._prompt_tokens = self._prompt_tokens, self._prompt_tokens + tokens
        new = NewTokens(self.prompt, start, self._positions(self.bands.prompt.start + start, tokens))
        return self._step(self._memory(), "prompt", new, record=self._use.record)

    def open_text(self, tokens: int = 1) -> Step:
        """Begin the next output token; it takes the place of the oldest one in the tail when that is full.

        With ``tokens`` above 1 the others are drafted: ``confirm_text`` must follow, and says how many were right.

        Raises:
            DecodeFailed: the page has as many outputs as the model has positions.
        """
        position = self.bands.text.start + self.tail.page_tokens
        if self.geometry.rope_theta is not None and position + tokens - 1 not in self.bands.text:
            raise DecodeFailed(
                f"page {self.page_number} has {self.tail.page_tokens} outputs and no position is left for another: "
                "end the page before that, with a stop_reason"
            )
        indices = [self.tail.append() for _ in range(tokens)]
        origin = self.bands.text.start - self.tail.frame_offset
        tail = Span("tail", origin, self.tail.block.keys, self.tail.block.values)
        spans = [*self._memory(), *_shown("prompt", self.prompt, self._prompt_tokens), tail]
        index = indices[0] if tokens == 1 else torch.tensor(indices, device=self.geometry.device)
        new = NewTokens(self.tail.buffer, index, self._positions(position, tokens))
        self._unconfirmed = []
        record = self._use.record if tokens == 1 else self._record_later
        return Step(self.geometry, spans, new, causal=False, hidden=self.tail.hidden(tokens), record=record)

    def confirm_text(self, tokens: int, drafted: int) -> None:
        """Keep the first ``tokens`` outputs of the latest step of ``drafted``; the others leave no trace."""
        for weights in self._unconfirmed:
            self._use.record(weights[:, :tokens])
        self._unconfirmed = []
        self.tail.take_back(drafted - tokens)

    def window_blocks(self, before: int | None = None) -> tuple[KVBlock, ...]:
        """Return the window's pages as views, oldest first; with ``before`` only those before that page.

        Keys are rotated by their offset within the page where they are positional.
        """
        return tuple(
            self.window.block(number) for number in self.window.page_numbers if before is None or number < before
        )

    def window_mass(self) -> dict[int, torch.Tensor]:
        """Return the attention mass [tokens] of this page's prompt and outputs on each window page, by page number."""
        return self._use.window_mass

    def fetch(self, query: torch.Tensor, uncertainty: float) -> Fetch | None:
        """Ask the gate; if it fires, fetch the most relevant references into their band, in place of those there.

        ``query`` [layers, kv_heads, steps, head_dim] carries no position; ``uncertainty`` is from 0 (sure) to 1.
        Returns None when the gate does not fire, and when there is nothing to fetch.
        """
        if not need_cross_page_context(uncertainty, self.config):
            return None
        self._use.gate_fired += 1
        chosen = self._select(self.store, query, self.config.top_k)
        if not chosen:
            return None
        blocks = tuple(self._show(chosen))
        fetch = Fetch(blocks, torch.zeros(len(blocks), device=self.geometry.device))
        self._use.fetches.append(fetch)
        self._still = None
        return fetch

    # What the loop asks for

    def follow(self, window_pages: int, reference_tokens: int) -> None:
        """Apply the controller's widths: pages that no longer fit leave into the store.

        Pages that have not been read are dropped, to be prefilled again: how many pages they saw before them
        depends on the width, and the next chunk would prefill them at the new one.
        """
        self.store.reference_tokens = reference_tokens
        band_tokens = self.config.top_k * reference_tokens
        if self.references.capacity_tokens != band_tokens:
            self.references = SlotBuffer(self.geometry, 0)  # release before allocating
            self.references = SlotBuffer(self.geometry, band_tokens)
        if window_pages == self.window.window_pages:
            return
        self.window.discard_from(self.page_number)
        while len(self.window.page_numbers) > window_pages:
            self._let_oldest_leave()
        self.window.resize(window_pages)

    def make_room(self) -> None:
        """Let the oldest page leave into the store, if the window is full."""
        self.settle()
        if self.window.is_full:
            self._let_oldest_leave()

    def begin_page(self, page_number: int) -> None:
        """Turn to a page: earlier outputs become carried text, prompt and references are empty."""
        self.window.current_page = page_number
        self.tail.begin_page(self.bands.text.start)
        self._forget_page()

    def finish_page(self, decoding: Decoding) -> None:
        """Remember what the page's decode used: mass of window tokens, hits of references, output ids."""
        self.window.add_mass(decoding.window_mass)
        self.tail.remember(decoding.token_ids)
        for page_number in self._use.hits(self.config.hit_attention_ratio):
            self.store.record_use(page_number, self.page_number)
        self._forget_page()

    def abandon_page(self) -> None:
        """Take a page back that could not be read: no token of it stays, and pages prefilled behind it go too."""
        self.window.discard_from(self.page_number)
        self.tail.rewind_page()
        self._forget_page()

    def settle(self) -> None:
        """Finish a page's way into the store, if memory ran out on it."""
        if self._leaving:
            self.store.compress_and_store(*self._leaving)
            self._leaving = None

    def metrics(self) -> PageMetrics:
        """Return the deterministic measures of the page being read."""
        return PageMetrics(
            live_kv_bytes=self.live_kv_bytes,
            store_kv_bytes=self.store.nbytes,
            gate_fired=self._use.gate_fired,
            references_fetched=self._use.references_fetched,
            references_hit=len(self._use.hits(self.config.hit_attention_ratio)),
            window_pages=self.window.window_pages,
            top_k=self.config.top_k,
            reference_tokens=self.store.reference_tokens,
        )

    @property
    def live_kv_bytes(self) -> int:
        """Bytes of keys, values and payload of all that is attended to, as allocated; the store counts apart."""
        buffers = (self.sink, self.references, self.prompt, self.tail.buffer)
        return self.window.nbytes + sum(buffer.nbytes for buffer in buffers)

    @property
    def bookkeeping_bytes(self) -> int:
        """Bytes of positions and masses, as allocated: neither keys nor values, and no part of the formula."""
        buffers = (self.sink, self.references, self.prompt, self.tail.buffer)
        parts = self.window.bookkeeping_bytes + self.store.bookkeeping_bytes + self._use.nbytes
        return parts + sum(buffer.bookkeeping_bytes for buffer in buffers)

    def snapshot(self) -> Snapshot:
        """Return what belongs to no part: the sink and the model's notes."""
        sink = self.sink.view(0, self._sink_tokens).owned()
        return {"keys": sink.keys, "values": sink.values}, {"sink_tokens": self._sink_tokens, "notes": self.notes}

    def restore(self, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, JSON]) -> None:
        """Take up sink and notes of a snapshot."""
        self._sink_tokens = metadata["sink_tokens"]
        self.notes = metadata["notes"]
        self.sink.keys[:, :, : self._sink_tokens] = tensors["keys"]
        self.sink.values[:, :, : self._sink_tokens] = tensors["values"]

    def _record_later(self, weights: torch.Tensor) -> None:
        """Hold back what drafted outputs attended to, mean over heads [1, steps, tokens], until they are confirmed."""
        self._unconfirmed.append(weights.mean(0, keepdim=True, dtype=torch.float32))

    def _forget_page(self) -> None:
        self._prompt_tokens = 0
        self._use = PageUse(self.geometry)
        self._still = None

    def _let_oldest_leave(self) -> None:
        """Free a slot, then compress what lay in it; if memory runs out in between, ``settle`` tries again."""
        self.settle()
        self._leaving = self.window.evict_oldest()
        self.settle()

    def _show(self, chosen: Sequence[Reference]) -> Iterator[KVBlock]:
        """Write references into their band and rotate them there, once, from the un-rotated copy."""
        start = 0
        for reference in chosen:
            block = reference.block(self.geometry.dtype, self.store.reference_tokens)
            self.references.write(block, start)
            shown = self.references.view(start, start + block.tokens, block.page_number)
            positions = self._positions(self.bands.references.start + start, block.tokens)
            rotate_in_place(shown.keys, positions, self.geometry.rope_theta)
            start += block.tokens
            yield shown

    def _memory(self) -> tuple[Span, ...]:
        """Return the spans that stand still while a page is read: window pages first, references, sink."""
        if self._still is None:
            pages = self.window.page_numbers
            window = [self._page_span(number, len(pages) - 1 - index) for index, number in enumerate(pages)]
            tokens = self._use.fetches[-1].tokens if self._use.fetches else 0
            self._still = (*window, *_shown("references", self.references, tokens), *self._sink_span())
            self._use.watch({number: span.tokens for number, span in zip(pages, window, strict=True)})
        return self._still

    def _page_span(self, page_number: int, pages_behind: int) -> Span:
        block = self.window.block(page_number)
        return Span(str(page_number), self.bands.page_start(pages_behind), block.keys, block.values)

    def _sink_span(self) -> list[Span]:
        return _shown("sink", self.sink, self._sink_tokens)

    def _positions(self, start: int, tokens: int) -> torch.Tensor:
        return torch.arange(start, start + tokens, device=self.geometry.device)

    def _step(
        self,
        seen: Sequence[Span],
        name: str,
        new: NewTokens,
        *,
        origin: int = 0,
        record: Callable[[torch.Tensor], None] | None = None,
    ) -> Step:
        """Return a step that sees ``seen`` and, in order, the tokens of the buffer of ``new`` up to its own."""
        assert isinstance(new.index, int), "new tokens follow one another"
        view = new.buffer.view(0, new.index + len(new.positions))
        spans = [*seen, Span(name, origin, view.keys, view.values)]
        return Step(self.geometry, spans, new, causal=True, record=record)


def _shown(name: str, buffer: SlotBuffer, tokens: int) -> list[Span]:
    """Return the first ``tokens`` of a buffer whose keys stand at their final positions; nothing if there are none."""
    view = buffer.view(0, tokens)
    return [Span(name, 0, view.keys, view.values)] if tokens else []
