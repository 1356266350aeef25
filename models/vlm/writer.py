"""Writes one page: greedy, guarded against repetition, with references fetched when unsure and drafts verified.

One writer a document and page; several may share a forward pass, each within its own attention set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from data_contracts.config import VlmConfig
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import COMPLETE
from models.sr_swa.gate import entropy_uncertainty, need_cross_page_context
from models.vlm.drafts import Draft
from models.vlm.driver import DecoderDriver, Forward
from models.vlm.guard import NgramGuard
from models.vlm.prompt import Prompt

TOKEN_CAP = "token_cap"
"""The stop reason of a page that was not finished within its tokens: never to be taken for a whole one."""
ASK_AGAIN_TOKENS = 32
"""After the gate has fired it is left alone for so many outputs, about two printed lines: fetching is not for every
token."""
NGRAM_TOKENS = 35
"""What the guard forbids to repeat, unless the checkpoint's generation settings say otherwise: long enough for the
rules of a table."""
NGRAM_WINDOW_TOKENS = 1024


@dataclass(frozen=True)
class WritingRules:
    """How a page is written. ``sink_ids`` begin a document; ``lead_ids`` precede each page, ``prompt_ids`` follow it.

    ``start_ids`` are forced as the first outputs; any of ``stop_ids`` ends the page and is not part of it.
    ``draft_tokens`` is how many drafted outputs one pass may verify.
    """

    sink_ids: tuple[int, ...]
    prompt_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]
    lead_ids: tuple[int, ...] = ()
    start_ids: tuple[int, ...] = ()
    max_new_tokens: int = 4096
    ngram_tokens: int = 0
    ngram_window_tokens: int = 1024
    draft_tokens: int = 0
    ask_again_tokens: int = ASK_AGAIN_TOKENS


def rules_of(prompt: Prompt, model: Any, config: VlmConfig, start_ids: tuple[int, ...] = ()) -> WritingRules:
    """Return how ``model`` writes a page behind ``prompt``: ends and guard are its checkpoint's, the cap is configured.

    ``start_ids`` are forced as the first outputs, and end a page as well: they begin the next one.
    """
    settings = model.generation_config
    ends = settings.eos_token_id if settings.eos_token_id is not None else model.config.get_text_config().eos_token_id
    sink_tokens = len(prompt.before) if config.sink_tokens is None else config.sink_tokens
    return WritingRules(
        sink_ids=prompt.before[:sink_tokens],
        lead_ids=prompt.before[sink_tokens:],
        prompt_ids=prompt.after,
        stop_ids=(*([ends] if isinstance(ends, int) else ends or ()), *start_ids),
        start_ids=start_ids,
        max_new_tokens=config.max_new_tokens,
        ngram_tokens=getattr(settings, "no_repeat_ngram_size", None) or NGRAM_TOKENS,
        ngram_window_tokens=getattr(settings, "no_repeat_ngram_window_size", None) or NGRAM_WINDOW_TOKENS,
        draft_tokens=config.draft_tokens,
    )


@dataclass
class PageWriter:
    """The page being written. ``pending`` has been chosen and is still to be fed; None before and after.

    ``passes`` counts forward passes of the page, the prompt's included. ``watch`` is shown the logits [vocabulary]
    behind every choice.
    """

    context: AttentionContext
    rules: WritingRules
    guard: NgramGuard
    draft: Draft = field(default_factory=Draft)
    watch: Callable[[torch.Tensor], None] | None = None
    written: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    uncertainties: list[float] = field(default_factory=list)
    stop_reason: str | None = None
    pending: int | None = None
    passes: int = 0
    asked_at: int | None = None

    def begin(self, driver: DecoderDriver) -> None:
        """Feed the prompt and choose the first output."""
        embeddings = driver.embed_ids(self.rules.prompt_ids).unsqueeze(0)
        forward = driver.forward(embeddings, [self.context.open_prompt(len(self.rules.prompt_ids))])
        self.accept(driver, forward, 0, [])

    def proposal(self) -> list[int]:
        """Return what is to be fed next: the pending output, and drafted ones behind it."""
        assert self.pending is not None, "a page that has ended is not continued"
        room = min(self.rules.draft_tokens, self.rules.max_new_tokens - len(self.written))
        return [self.pending, *self.draft.continuation(self.written, room)]

    def accept(self, driver: DecoderDriver, forward: Forward, row: int, fed: Sequence[int]) -> None:
        """Take the outputs that row ``row`` of a pass over ``fed`` confirms, and the one it adds."""
        self.passes += 1
        first = forward.logits.shape[1] - max(1, len(fed))
        kept = 0
        while True:
            logits = forward.logits[row, first + kept]
            fires = self._take(logits)
            kept += 1
            if fires or self.pending is None or kept >= len(fed) or self.pending != fed[kept]:
                break
        if len(fed) > 1:
            self.context.confirm_text(kept, len(fed))
        if fires:
            query = forward.query(row, first + kept - 1 - forward.logits.shape[1], driver.kv_heads)
            self.context.fetch(query, self.uncertainties[-1])

    def _take(self, logits: torch.Tensor) -> bool:
        """Choose the next output; return whether the gate is to be asked before it is fed."""
        if self.watch:
            self.watch(logits)
        rules, count = self.rules, len(self.written)
        self.uncertainties.append(float(entropy_uncertainty(logits)))
        forced = count < len(rules.start_ids)
        chosen = rules.start_ids[count] if forced else self.guard.choose(logits)
        self.pending = None
        if not forced and chosen in rules.stop_ids:
            self.stop_reason = COMPLETE
            return False
        if count >= rules.max_new_tokens:
            self.stop_reason = TOKEN_CAP
            return False
        self.pending = chosen
        self.written.append(chosen)
        self.guard.add(chosen)
        self.confidences.append(float(torch.softmax(logits.float(), -1)[chosen]))
        return self._is_lost(count)

    def _is_lost(self, count: int) -> bool:
        """Return whether the gate will fire at output ``count``; it rests for a while after it has."""
        if self.asked_at is not None and count - self.asked_at < self.rules.ask_again_tokens:
            return False
        if not need_cross_page_context(self.uncertainties[-1], self.context.config):
            return False
        self.asked_at = count
        return True


def write_page(driver: DecoderDriver, writer: PageWriter, clock: Callable[[], float]) -> list[float]:
    """Write one page to its end; return the durations of its passes [ms]."""
    durations_ms = []
    writer.begin(driver)
    while writer.pending is not None:
        started = clock()
        fed = writer.proposal()
        embeddings = driver.embed_ids(fed).unsqueeze(0)
        step = writer.context.open_text(len(fed))
        writer.accept(driver, driver.forward(embeddings, [step], logits_of=len(fed)), 0, fed)
        durations_ms.append((clock() - started) * 1000)
    return durations_ms


def write_together(driver: DecoderDriver, writers: Sequence[PageWriter]) -> None:
    """Write a page of several documents, one output of each a pass; a page that ends leaves the batch.

    Documents differ in every length; each row attends within its own set, so nothing is padded. Drafts are not used:
    rows of a pass have one length.
    """
    for writer in writers:
        writer.begin(driver)
    while under_way := [writer for writer in writers if writer.pending is not None]:
        pending = [writer.pending for writer in under_way if writer.pending is not None]
        steps = [writer.context.open_text() for writer in under_way]
        forward = driver.forward(driver.embed_ids(pending).unsqueeze(1), steps)
        for row, (writer, token_id) in enumerate(zip(under_way, pending, strict=True)):
            writer.accept(driver, forward, row, [token_id])
