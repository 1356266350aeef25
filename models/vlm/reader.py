"""A vision-language model behind the ``OcrModel`` protocol: encodes a page, holds it, writes it.

What differs between models - how a page becomes features, how outputs become lines - is its ``PageAdapter``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from data_contracts.result import Line
from models.sr_swa.context import AttentionContext
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.pages import Decoding, EncodedPage, PageImage
from models.sr_swa.pool import SlotPool
from models.vlm.drafts import Draft
from models.vlm.driver import DecoderDriver
from models.vlm.guard import NgramGuard
from models.vlm.writer import PageWriter, WritingRules, write_page, write_together

Drafter = Callable[[EncodedPage], Sequence[int]]
"""A page -> the ids that another reader would have the model write."""


class PageAdapter(Protocol):
    """What a model family does in its own way."""

    def encode(self, image: PageImage) -> EncodedPage:
        """Return the page's features [tokens, dim], ready to stand in the decoder's sequence."""

    def lines(self, page: EncodedPage, token_ids: Sequence[int], confidences: Sequence[float]) -> tuple[Line, ...]:
        """Return the lines that outputs and their probabilities stand for."""

    def residual_positions(self, page: EncodedPage) -> torch.Tensor | None:
        """Return what tokens' positions on several axes [axes, tokens] have beyond their index; None for none."""


@dataclass(frozen=True)
class ReaderSetup:
    """What is settled when a model is loaded: its ``fingerprint``, and a page's visual tokens at most.

    ``pool_pages`` above 0 are page slots, allocated at once, that documents read side by side share.
    """

    fingerprint: str
    page_tokens: int
    pool_pages: int = 0


class VlmReader:
    """Reads pages with a large decoder. ``passes`` is the number of forward passes of the latest page."""

    def __init__(
        self,
        driver: DecoderDriver,
        rules: WritingRules,
        adapter: PageAdapter,
        setup: ReaderSetup,
        *,
        drafter: Drafter | None = None,
        watch: Callable[[torch.Tensor], None] | None = None,
    ) -> None:
        """Read with ``driver`` by ``rules``; ``watch`` is called with the logits of each pass."""
        self.fingerprint = setup.fingerprint
        self.geometry = geometry_of(driver, rules, setup.page_tokens)
        self.pool = SlotPool(self.geometry, setup.pool_pages) if setup.pool_pages else None
        self.passes = 0
        self.driver = driver
        self._rules = rules
        self._adapter = adapter
        self._drafter = drafter
        self._watch = watch

    def encode_visual(self, image: PageImage) -> EncodedPage:
        """Encode one page; a pure function of it."""
        return self._adapter.encode(image)

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Run the page's features through the decoder into a window slot; before the first page, the sink."""
        if context.needs_sink:
            ids = self._rules.sink_ids
            self.driver.forward(self.driver.embed_ids(ids).unsqueeze(0), [context.open_sink(len(ids))], logits_of=0)
        assert page.features is not None, f"page {page.page_number} was encoded by another model"
        features = page.features.to(self.driver.device, self.driver.dtype)
        residual = self._adapter.residual_positions(page)
        if lead_ids := self._rules.lead_ids:
            features = torch.cat([self.driver.embed_ids(lead_ids), features])
            residual = None if residual is None else torch.nn.functional.pad(residual, (len(lead_ids), 0))
        step = context.open_page(page.page_number, len(features))
        self.driver.forward(features.unsqueeze(0), [step], logits_of=0, residual_positions=residual)
        return context.page_block(page.page_number)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Write the page."""
        writer = self._writer(page, context)
        step_ms = write_page(self.driver, writer, time.perf_counter)
        return self._decoding(page, writer, step_ms)

    def decode_together(self, pages: Sequence[EncodedPage], contexts: Sequence[AttentionContext]) -> list[Decoding]:
        """Write one page of several documents in shared passes; each reads as it would alone."""
        writers = [self._writer(page, context) for page, context in zip(pages, contexts, strict=True)]
        write_together(self.driver, writers)
        return [self._decoding(page, writer, ()) for page, writer in zip(pages, writers, strict=True)]

    def _writer(self, page: EncodedPage, context: AttentionContext) -> PageWriter:
        rules = self._rules
        guard = NgramGuard(rules.ngram_tokens, rules.ngram_window_tokens, context.tail.recent_ids)
        draft = Draft(self._drafter(page) if self._drafter and rules.draft_tokens else ())
        return PageWriter(context, rules, guard, draft, self._watch)

    def _decoding(self, page: EncodedPage, writer: PageWriter, step_ms: Sequence[float]) -> Decoding:
        self.passes = writer.passes
        return Decoding(
            lines=self._adapter.lines(page, writer.written, writer.confidences),
            token_ids=tuple(writer.written),
            uncertainty=max(writer.uncertainties),
            window_mass=writer.context.window_mass(),
            stop_reason=writer.stop_reason or "",
            step_ms=tuple(step_ms),
        )


def geometry_of(driver: DecoderDriver, rules: WritingRules, page_tokens: int) -> Geometry:
    """Return the shape of a decoder's memory under ``rules``; ``page_tokens`` are the visual tokens of a page."""
    return Geometry(
        layers=driver.layers,
        kv_heads=driver.kv_heads,
        head_dim=driver.head_dim,
        page_tokens=len(rules.lead_ids) + page_tokens,
        dtype=driver.dtype,
        device=str(driver.device),
        query_heads=driver.query_heads,
        rope_theta=driver.rope,
        max_positions=int(driver.config.max_position_embeddings),
        sink_tokens=len(rules.sink_ids),
        prompt_tokens=len(rules.prompt_ids),
        draft_tokens=rules.draft_tokens,
    )
