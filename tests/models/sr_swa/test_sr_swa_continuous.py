from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support.fakes import ScriptedModel, scripted_pages, write_the_page_number
from support.reference_transformer import ReferenceTransformer

from data_contracts.config import SrSwaConfig
from data_contracts.errors import DecodeFailed, OutOfMemory, WrongModel
from data_contracts.result import BlankReason, PageResult, PageStatus
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import ContinuousDecoder, continuous_decode, is_out_of_memory
from models.sr_swa.controller import MemoryWatermark
from models.sr_swa.pages import Decoding, EncodedPage, PageImage

CONFIG = SrSwaConfig(
    window_pages=4,
    max_window_pages=8,
    top_k=2,
    reference_tokens=2,
    tail_tokens=5,
    gate_uncertainty=0.5,
    reference_pages=5,
)


def configured(**changes: Any) -> SrSwaConfig:
    return SrSwaConfig(**CONFIG.model_dump() | changes)


def texts(results: Sequence[PageResult]) -> list[str]:
    return [result.text for result in results]


def except_page(page_number: int, what: Any) -> Callable[[int], Any]:
    """A script that is dull but for one page."""
    return lambda number: what if number == page_number else write_the_page_number(number)


# The order of things


def test_every_page_yields_one_result_in_order_whatever_happens_to_it() -> None:
    model = ScriptedModel(except_page(6, DecodeFailed("no line can be read")))
    results = list(continuous_decode(scripted_pages(8, failed=[2], blank=[4]), model, CONFIG))
    assert [result.page_number for result in results] == list(range(1, 9))
    ends = [result.status for result in results]
    assert ends == ["text", "failed", "text", "blank", "text", "failed", "text", "text"]
    assert [results[1].error, results[5].error] == ["the image is torn", "no line can be read"]
    assert (results[0].width_px, results[0].height_px, results[0].dpi) == (100, 200, 72.0)


@pytest.mark.parametrize("lookahead_pages", [0, 2])
def test_a_page_is_pulled_only_when_it_is_needed(lookahead_pages: int) -> None:
    pulled = []

    def pages() -> Iterator[Any]:
        for page in scripted_pages(9):
            pulled.append(page.page_number)
            yield page

    reading = continuous_decode(pages(), ScriptedModel(), configured(lookahead_pages=lookahead_pages))
    assert pulled == []
    for read in range(1, 10):
        assert next(reading).page_number == read
        assert pulled == list(range(1, min(read + lookahead_pages, 9) + 1))


def test_the_window_holds_pages_before_the_page_itself_and_pages_ahead() -> None:
    model = ScriptedModel()
    list(continuous_decode(scripted_pages(7), model, configured(lookahead_pages=1)))
    held = {page: pages for stage, page, pages in model.seen if stage == "decode"}
    assert held[1] == (1, 2)
    assert held[3] == (1, 2, 3, 4)
    assert held[5] == (3, 4, 5, 6)
    assert held[7] == (4, 5, 6, 7)


def test_the_oldest_page_leaves_before_the_new_one_is_prefilled() -> None:
    model = ScriptedModel()
    list(continuous_decode(scripted_pages(7), model, CONFIG))
    before = {page: pages for stage, page, pages in model.seen if stage == "prefill"}
    assert before[5] == (2, 3, 4)
    assert max(len(pages) for pages in before.values()) == CONFIG.window_pages - 1


def test_lookahead_is_read_by_the_next_chunk_only() -> None:
    decoder = ContinuousDecoder(ScriptedModel(), configured(lookahead_pages=2))
    results = list(decoder.decode(scripted_pages(6), last_page_number=4))
    assert [result.page_number for result in results] == [1, 2, 3, 4]
    assert decoder.state().next_page_number == 5
    assert decoder.state().metadata["window"]["pages"] == [3, 4]


def test_two_runs_write_the_same() -> None:
    runs = [list(continuous_decode(scripted_pages(20), ScriptedModel(), CONFIG)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(texts(runs[0]))) == 20


def test_an_empty_document_yields_nothing() -> None:
    assert list(continuous_decode(iter(()), ScriptedModel(), CONFIG)) == []


# Pages that are not read


@pytest.mark.parametrize("kind", ["failed", "blank"])
def test_a_page_that_is_torn_or_blank_leaves_memory_untouched(kind: str) -> None:
    pages = list(scripted_pages(12, **{kind: [6]}))
    with_it = list(continuous_decode(iter(pages), ScriptedModel(), CONFIG))
    without = list(continuous_decode(iter(pages[:5] + pages[6:]), ScriptedModel(), CONFIG))
    assert texts(with_it[6:]) == texts(without[5:])
    assert with_it[5].metrics.gate_fired == 0


@pytest.mark.parametrize("outcome", [BlankReason.SHOW_THROUGH, DecodeFailed("unreadable")], ids=["blank", "failed"])
@pytest.mark.parametrize("stage", ["script", "prefill_script"])
def test_a_page_that_turns_out_unreadable_leaves_no_trace(outcome: Any, stage: str) -> None:
    if stage == "prefill_script" and isinstance(outcome, BlankReason):
        outcome = DecodeFailed("no words")
    pages = list(scripted_pages(12))
    with_it = list(continuous_decode(iter(pages), ScriptedModel(**{stage: except_page(6, outcome)}), CONFIG))
    without = list(continuous_decode(iter(pages[:5] + pages[6:]), ScriptedModel(), CONFIG))
    assert with_it[5].status is not PageStatus.TEXT
    assert texts(with_it[6:]) == texts(without[5:])


class Interrupted(ReferenceTransformer):
    """Fails after two outputs of page 6, each time or once."""

    def __init__(self, error: Exception, times: int) -> None:
        super().__init__()
        self.error, self.times = error, times

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        if page.page_number == 6 and self.times:
            self.times -= 1
            self._run(self._embed([1]), context.open_prompt(1))
            for token_id in (7, 8):
                self._run(self._embed([token_id]), context.open_text())
            raise self.error
        return super().decode(page, context)


def test_outputs_of_a_page_that_failed_are_no_text_for_the_next() -> None:
    pages = [ReferenceTransformer().page(number) for number in range(1, 10)]
    long_tail = configured(tail_tokens=64)
    model, control = Interrupted(DecodeFailed("unreadable"), times=1), ReferenceTransformer()
    list(continuous_decode(iter(pages), model, long_tail))
    list(continuous_decode(iter(pages[:5] + pages[6:]), control, long_tail))
    for page_number in (7, 8, 9):
        assert torch.allclose(model.logits[page_number], control.logits[page_number], atol=1e-5)


def test_a_page_without_a_line_or_a_reason_is_no_blank_page() -> None:
    class Silent(ScriptedModel):
        def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
            return Decoding(lines=(), stop_reason="length")

    (result,) = continuous_decode(scripted_pages(1), Silent(), CONFIG)
    assert (result.status, result.stop_reason) == (PageStatus.FAILED, "length")
    assert result.error == "nothing was read and no reason given for a blank page (stop: length)"


def test_a_page_that_was_cut_short_says_so_and_stays_in_memory() -> None:
    class Cut(ScriptedModel):
        def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
            decoding = super().decode(page, context)
            return replace(decoding, stop_reason="repetition") if page.page_number == 2 else decoding

    decoder = ContinuousDecoder(Cut(), CONFIG)
    results = list(decoder.decode(scripted_pages(3)))
    assert results[1].status is PageStatus.TRUNCATED
    assert results[1].error == "the decoder stopped before the end of the page: repetition"
    assert decoder.context.window.page_numbers == (1, 2, 3)


def test_a_fault_of_the_program_is_not_taken_for_a_bad_page() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        list(
            continuous_decode(
                scripted_pages(2), ScriptedModel(except_page(2, RuntimeError("shapes cannot be multiplied"))), CONFIG
            )
        )


# Memory


class Once:
    """Calls ``inner`` but for the ``number``-th call, which runs out of memory."""

    def __init__(self, inner: Callable[..., Any], number: int = 1, error: Exception | None = None) -> None:
        self.inner, self.left, self.error = inner, number, error or MemoryError()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise self.error
        return self.inner(*args, **kwargs)


OUT_OF_MEMORY = [
    MemoryError(),
    OutOfMemory("the step needs 3 GB"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_memory_that_runs_out_once_shrinks_the_window_and_the_page_is_read(error: Exception) -> None:
    model = ScriptedModel()
    model.decode = Once(model.decode, 6, error)  # type: ignore[method-assign]
    decoder = ContinuousDecoder(model, configured(reference_pages=20))
    results = list(decoder.decode(scripted_pages(8)))
    assert [result.status for result in results] == [PageStatus.TEXT] * 8
    assert [event.kind for event in results[5].events] == ["window_shrunk"]
    assert [result.metrics.window_pages for result in results] == [4] * 5 + [2] * 3
    assert [result.degraded_by for result in results] == [None] * 5 + ["memory"] * 3
    assert results[5].metrics.live_kv_bytes < results[4].metrics.live_kv_bytes
    assert decoder.context.window.page_numbers == (7, 8)
    assert decoder.context.store.page_numbers == (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("lookahead_pages", [0, 1])
@pytest.mark.parametrize("stage", ["prefill", "decode", "evict", "compress", "fetch", "store"])
def test_memory_may_run_out_at_any_stage(stage: str, lookahead_pages: int) -> None:
    model = ReferenceTransformer()
    decoder = ContinuousDecoder(model, configured(lookahead_pages=lookahead_pages, reference_pages=20))
    context = decoder.context
    owner, name = {
        "prefill": (model, "prefill"),
        "decode": (model, "decode"),
        "evict": (context.window, "evict_oldest"),
        "compress": (context.store, "compress_and_store"),
        "fetch": (context, "_show"),
        "store": (context.store, "_landmark"),
    }[stage]
    setattr(owner, name, Once(getattr(owner, name), 3))
    results = list(decoder.decode(model.page(number) for number in range(1, 13)))
    assert [result.status for result in results] == [PageStatus.TEXT] * 12
    assert [event.kind for result in results for event in result.events].count("window_shrunk") == 1
    held = (*context.store.page_numbers, *context.window.page_numbers)
    assert held == tuple(range(1, 13)), "a page got lost on its way from the window into the store"


def test_memory_that_runs_out_twice_fails_the_page_and_not_the_next() -> None:
    decoder = ContinuousDecoder(ScriptedModel(except_page(3, MemoryError())), CONFIG)
    results = list(decoder.decode(scripted_pages(5)))
    assert [result.status for result in results] == ["text", "text", "failed", "text", "text"]
    assert results[2].error == "memory ran out: MemoryError. Give less window_pages or more memory."
    assert [event.kind for event in results[2].events] == ["window_shrunk"]
    assert 3 not in decoder.context.window


def test_memory_that_runs_out_in_mid_page_leaves_no_half_page_behind() -> None:
    pages = [ReferenceTransformer().page(number) for number in range(1, 9)]
    config = configured(tail_tokens=64, window_pages=1, gate_uncertainty=1)  # nothing left to shrink
    model, control = Interrupted(MemoryError(), times=1), ReferenceTransformer()
    list(continuous_decode(iter(pages), model, config))
    list(continuous_decode(iter(pages), control, config))
    for page_number in (6, 7, 8):
        assert torch.allclose(model.logits[page_number], control.logits[page_number], atol=1e-5)


def test_the_window_shrinks_above_the_watermark_and_comes_back() -> None:
    used_ratios = iter([0.5] * 5 + [0.9, 0.9] + [0.5] * 60)
    decoder = ContinuousDecoder(ScriptedModel(), CONFIG, watermark=MemoryWatermark(read=lambda: next(used_ratios)))
    results = list(decoder.decode(scripted_pages(40)))
    widths = [result.metrics.window_pages for result in results]
    assert widths[:8] == [4, 4, 4, 4, 4, 2, 1, 1]
    assert widths[-1] == 4
    live = {result.metrics.window_pages: result.metrics.live_kv_bytes for result in results}
    page_bytes = (live[4] - live[2]) // 2
    assert live[4] - live[1] == 3 * page_bytes > 0
    assert {result.degraded_by for result in results if result.metrics.window_pages < 4} == {"memory"}


def test_poor_recall_widens_the_window_then_makes_references_denser() -> None:
    decoder = ContinuousDecoder(ScriptedModel(uses_references=False), CONFIG)
    results = list(decoder.decode(scripted_pages(60)))
    widths = list(dict.fromkeys((r.metrics.window_pages, r.metrics.reference_tokens) for r in results))
    assert widths == [(4, 2), (6, 2), (8, 2), (8, 4)]
    assert results[-1].degraded_by == "recall"
    store = decoder.context.store
    assert {store[number].tokens for number in store.page_numbers} == {4}
    assert decoder.context.references.capacity_tokens == 2 * 4


def test_a_window_for_which_there_is_no_memory_to_widen_shrinks_instead() -> None:
    decoder = ContinuousDecoder(ScriptedModel(uses_references=False), CONFIG)
    decoder.context.window._new_slot = Once(decoder.context.window._new_slot, 2)  # type: ignore[method-assign]
    results = list(decoder.decode(scripted_pages(20)))
    assert [event.kind for result in results for event in result.events][:2] == ["window_widened", "window_shrunk"]
    assert {result.status for result in results} == {PageStatus.TEXT}
    assert list(dict.fromkeys(result.metrics.window_pages for result in results))[:2] == [4, 2]


def test_a_gate_at_one_or_a_sure_decoder_never_fetches() -> None:
    for model, config in ((ScriptedModel(uncertainty=0.0), CONFIG), (ScriptedModel(), configured(gate_uncertainty=1))):
        results = list(continuous_decode(scripted_pages(12), model, config))
        assert {(r.metrics.gate_fired, r.metrics.references_fetched) for r in results} == {(0, 0)}


def test_metrics_count_fetches_and_hits_and_the_store_learns_of_them() -> None:
    decoder = ContinuousDecoder(ScriptedModel(), CONFIG)
    results = list(decoder.decode(scripted_pages(10)))
    used = [(r.metrics.gate_fired, r.metrics.references_fetched, r.metrics.references_hit) for r in results]
    assert used == [(1, 0, 0)] * 4 + [(1, 1, 1)] + [(1, 2, 1)] * 5
    store = decoder.context.store
    assert sum(store[number].uses for number in store.page_numbers) > 0


# State and measures


def test_a_state_of_another_model_is_refused() -> None:
    state = ContinuousDecoder(ScriptedModel(), CONFIG).state()
    with pytest.raises(WrongModel, match="written by model scripted, this is other"):
        ContinuousDecoder(ScriptedModel(fingerprint="other"), CONFIG, state)


def test_each_page_is_timed_apart_from_its_reading() -> None:
    class Timed(ScriptedModel):
        def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
            return replace(super().decode(page, context), step_ms=(1.0, 3.0))

    decoder = ContinuousDecoder(Timed(), CONFIG)
    list(decoder.decode(scripted_pages(3, failed=[2])))
    timings = decoder.take_timings()
    assert [timing.page_number for timing in timings] == [1, 2, 3]
    assert [timing.step_latency_p50_ms for timing in timings] == [2.0, None, 2.0]
    assert decoder.take_timings() == ()


def test_what_counts_as_lack_of_memory() -> None:
    assert all(is_out_of_memory(error) for error in OUT_OF_MEMORY)
    assert not is_out_of_memory(RuntimeError("expected scalar type Half"))
    assert not is_out_of_memory(DecodeFailed("unreadable"))


def test_the_fake_encodes_an_image_as_a_page_of_its_size() -> None:
    page = ScriptedModel().encode_visual(PageImage(3, np.zeros((20, 10, 3), np.uint8), 300.0))
    assert (page.page_number, page.width_px, page.height_px, page.dpi) == (3, 10, 20, 300.0)
