"""The six invariants of SR-SWA, each a test named after it."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from support.fakes import FAKE_GEOMETRY, ScriptedModel, scripted_pages
from support.oracle import Oracle
from support.reference_transformer import ReferenceTransformer, written

from data_contracts.config import SrSwaConfig
from data_contracts.result import BlankReason, PageResult
from models.sr_swa.attention import Step
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock, storage_bytes
from models.sr_swa.memory.state import ReferenceState, load_state, state_bytes
from models.sr_swa.memory.store import SparseReferenceStore
from models.sr_swa.pages import Decoding, EncodedPage, FailedPage
from models.sr_swa.protocol import OcrModel

SAME = 1e-4
"""Logits in float32 against full attention in float64."""
CONFIG_SHA256 = "0" * 64

SMALL = SrSwaConfig(
    window_pages=3,
    max_window_pages=6,
    top_k=2,
    reference_tokens=2,
    tail_tokens=5,
    gate_uncertainty=0.5,
    reference_pages=5,
)
CONSTANT_FROM = SMALL.window_pages + SMALL.reference_pages + SMALL.top_k


def configured(**changes: Any) -> SrSwaConfig:
    return SrSwaConfig(**SMALL.model_dump() | changes)


# 1. Equal when unbounded


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)], ids=["multi-head", "grouped", "multi-query"])
def test_invariant_1_equal_when_unbounded(heads: tuple[int, int]) -> None:
    """Window >= pages, gate off, tail as long as the output: full attention over the same tokens and positions."""
    model, pages = ReferenceTransformer(query_heads=heads[0], kv_heads=heads[1]), range(1, 9)
    config = configured(window_pages=8, max_window_pages=8, tail_tokens=64, gate_uncertainty=1)
    decoder = ContinuousDecoder(model, config)
    outputs = {r.page_number: written(r) for r in decoder.decode(model.page(number) for number in pages)}
    expected = Oracle(model, config, pages).read(outputs)
    error = max(float((model.logits[page].double() - expected[page]).abs().max()) for page in pages)
    print(f"largest error of a logit {error:.1e}, spread {torch.cat([*expected.values()]).std():.2f}")
    assert error < SAME
    assert len(decoder.context.store) == 0
    assert decoder.context.tail.held_tokens == sum(len(tokens) for tokens in outputs.values())


# 2. Constant


class WatchedTransformer(ReferenceTransformer):
    """Notes live and stored bytes at every update, as (page, live, store)."""

    def __init__(self) -> None:
        super().__init__(layers=1)
        self.bytes_seen: list[tuple[int, int, int]] = []
        self.context: AttentionContext | None = None

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        self.context = context
        return super().prefill(page, context)

    def _run(self, hidden: torch.Tensor, step: Step) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.context is not None
        self.bytes_seen.append((self.context.page_number, self.context.live_kv_bytes, self.context.store.nbytes))
        return super()._run(hidden, step)


def all_tensor_bytes() -> int:
    """Bytes of every tensor alive in this process."""
    gc.collect()
    return storage_bytes(thing for thing in gc.get_objects() if type(thing) is torch.Tensor)


def test_invariant_2_constant() -> None:
    """Live bytes from page W + 1, live + store from page W + C + k on, at every update and in the whole process."""
    gc.collect()  # what tests before this one left behind must not go meanwhile
    model = WatchedTransformer()
    decoder = ContinuousDecoder(model, SMALL)
    in_process = {}
    for result in decoder.decode(model.page(number) for number in range(1, 41)):
        model.logits.clear()
        if result.page_number in (CONSTANT_FROM, 20, 30, 40):
            in_process[result.page_number] = all_tensor_bytes()
    bytes_per_token = model.geometry.bytes_per_token
    geometry, config = model.geometry, SMALL
    live_tokens = geometry.sink_tokens + config.window_pages * geometry.page_tokens + config.tail_tokens
    live_tokens += config.top_k * config.reference_tokens + geometry.prompt_tokens
    assert {live for page, live, _ in model.bytes_seen if page > config.window_pages} == {live_tokens * bytes_per_token}
    stored = config.reference_pages * (2 * config.reference_tokens + 1) * bytes_per_token // 2
    assert {store for page, _, store in model.bytes_seen if page >= CONSTANT_FROM} == {stored}
    grown = {page: store for page, _, store in model.bytes_seen}
    assert [grown[page] // (stored // 5) for page in range(1, 10)] == [0, 0, 0, 1, 2, 3, 4, 5, 5]
    assert len(set(in_process.values())) == 1, in_process


def test_invariant_2_bytes_equal_the_formula_in_7b_geometry() -> None:
    """One of the 32 layers of a 7B decoder with the default configuration, from tensors really allocated."""
    geometry = Geometry(1, 32, 128, page_tokens=256, dtype=torch.float16, prompt_tokens=16)
    config = SrSwaConfig()
    context = AttentionContext(geometry, config)
    keys = torch.zeros(1, 32, 256, 128, dtype=torch.float16)
    highest_bytes = 0
    for page_number in range(1, 77):
        context.begin_page(page_number)
        context.make_room()
        context.window.admit(KVBlock(page_number, keys, keys, torch.arange(256)))
        highest_bytes = max(highest_bytes, context.live_kv_bytes + context.store.nbytes)
    live_bytes = (8 * 256 + 128 + 4 * 16 + 16) * geometry.bytes_per_token
    store_bytes = 64 * (2 * 16 + 1) * geometry.bytes_per_token // 2
    assert (context.live_kv_bytes, context.store.nbytes) == (live_bytes, store_bytes)
    assert highest_bytes * 32 == 1_736_441_856
    assert 1 - highest_bytes / ((100 * 896 + 16) * geometry.bytes_per_token) == pytest.approx(0.963, abs=5e-4)
    assert context.bookkeeping_bytes < 1e-3 * live_bytes


# 3. Chunking does not matter


def read_in_chunks(
    make_model: Any, config: SrSwaConfig, pages: Sequence[Any], chunk_pages: int
) -> tuple[list[PageResult], bytes]:
    """Read ``pages`` with a fresh model and a state that went through bytes at every chunk border."""
    state: ReferenceState | None = None
    results: list[PageResult] = []
    for start in range(0, len(pages), chunk_pages):
        model = make_model()
        decoder = ContinuousDecoder(model, config, state, config_sha256=CONFIG_SHA256)
        given = pages[start : start + chunk_pages + config.lookahead_pages]
        last = pages[min(start + chunk_pages, len(pages)) - 1].page_number
        results += decoder.decode(iter(given), last_page_number=last)
        data = state_bytes(decoder.state())
        state = load_state(data, fingerprint=model.fingerprint, config_sha256=CONFIG_SHA256)
        assert state.next_page_number == last + 1
    return results, data


def awkward(page_number: int) -> Any:
    """Pages that turn out blank and pages that cannot be read."""
    if page_number % 11 == 5:
        return BlankReason.PICTURE_ONLY
    if page_number % 7 == 6:
        from data_contracts.errors import DecodeFailed

        return DecodeFailed("unreadable")
    return [page_number]


def awkward_prefill(page_number: int) -> Any:
    from data_contracts.errors import DecodeFailed

    return DecodeFailed("no words") if page_number % 13 == 9 else [page_number]


def scripted_document() -> list[EncodedPage | FailedPage]:
    return [p for p in scripted_pages(34, failed=(3, 16), blank=(8, 17)) if p.page_number not in (20, 21)]


@pytest.mark.parametrize("lookahead_pages", [0, 2])
@pytest.mark.parametrize("chunk_pages", [1, 4, 16])
def test_invariant_3_chunking_does_not_matter(chunk_pages: int, lookahead_pages: int) -> None:
    """A transformer whose every key depends on what its page saw: the same bytes, states included."""
    model = ReferenceTransformer()
    config = configured(lookahead_pages=lookahead_pages)
    pages = [model.page(number, tokens=1 + number % 6) for number in range(1, 18)]
    whole = read_in_chunks(ReferenceTransformer, config, pages, len(pages))
    chunked = read_in_chunks(ReferenceTransformer, config, pages, chunk_pages)
    assert [r.model_dump_json() for r in chunked[0]] == [r.model_dump_json() for r in whole[0]]
    assert chunked[1] == whole[1]
    assert sum(r.metrics.references_fetched for r in whole[0]) > 10


@pytest.mark.parametrize("lookahead_pages", [0, 2])
@pytest.mark.parametrize("chunk_pages", [1, 4, 16])
def test_invariant_3_holds_for_documents_full_of_failures_and_changing_widths(
    chunk_pages: int, lookahead_pages: int
) -> None:
    """Torn, blank, unreadable pages, gaps, a window that widens because recall is poor: still the same bytes."""

    def model() -> ScriptedModel:
        return ScriptedModel(awkward, awkward_prefill, uses_references=False)

    config, pages = configured(lookahead_pages=lookahead_pages), scripted_document()
    whole = read_in_chunks(model, config, pages, len(pages))
    chunked = read_in_chunks(model, config, pages, chunk_pages)
    assert [r.model_dump_json() for r in chunked[0]] == [r.model_dump_json() for r in whole[0]]
    assert chunked[1] == whole[1]
    assert {r.metrics.window_pages for r in whole[0]} == {3, 5, 6}
    assert {r.status for r in whole[0]} == {"text", "blank", "failed"}


def test_invariant_3_holds_for_a_run_that_was_killed_anywhere() -> None:
    """The reader stops listening after any page; what was saved then is continued from."""
    model, config = ReferenceTransformer(), configured(lookahead_pages=1)
    pages = [model.page(number) for number in range(1, 12)]
    whole, last_state = read_in_chunks(ReferenceTransformer, config, pages, len(pages))
    for survivors in range(1, 11):
        decoder = ContinuousDecoder(model, config, config_sha256=CONFIG_SHA256)
        reading = decoder.decode(iter(pages))
        results = [next(reading) for _ in range(survivors)]
        state = load_state(state_bytes(decoder.state()), fingerprint=model.fingerprint, config_sha256=CONFIG_SHA256)
        resumed = ContinuousDecoder(ReferenceTransformer(), config, state, config_sha256=CONFIG_SHA256)
        results += resumed.decode(iter(pages[survivors:]))
        assert [r.model_dump_json() for r in results] == [r.model_dump_json() for r in whole]
        assert state_bytes(resumed.state()) == last_state


def test_invariant_3_notices_a_state_that_lacks_something() -> None:
    """The control: without the attention mass, the tail or the notes, some page reads otherwise."""
    config, pages = configured(), [*scripted_pages(20)]
    whole, _ = read_in_chunks(ScriptedModel, config, pages, len(pages))
    for part, name, empty in [("tail", "recent_ids", []), ("context", "notes", {}), ("window", "pages", [])]:
        decoder = ContinuousDecoder(ScriptedModel(), config)
        list(decoder.decode(iter(pages[:10])))
        state = decoder.state()
        state.metadata[part][name] = empty
        resumed = list(ContinuousDecoder(ScriptedModel(), config, state).decode(iter(pages[10:])))
        assert [r.text for r in resumed] != [r.text for r in whole[10:]], part


# 4. Released means released


class Traced(ScriptedModel):
    """Keeps weak references to everything a page brings: its features, its block, what its decode returned."""

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        block = super().prefill(page, context)
        self.traces = getattr(self, "traces", {})
        self.traces[page.page_number] = [weakref.ref(t) for t in (block.keys, block.values, *block.payload.values())]
        return block

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        decoding = super().decode(page, context)
        self.traces[page.page_number] += [weakref.ref(mass) for mass in decoding.window_mass.values()]
        return decoding


def traced_pages(last: int, features: dict[int, weakref.ref[Any]], alive: list[int]) -> Iterator[EncodedPage]:
    for page_number in range(1, last + 1):
        alive.append(sum(trace() is not None for trace in features.values()))
        page = [EncodedPage(page_number, 1, 1, 72.0, features=torch.zeros(1000))]
        features[page_number] = weakref.ref(page[0].features)
        yield page.pop()  # a generator keeps its variables while it waits


@pytest.mark.parametrize("lookahead_pages", [0, 2])
def test_invariant_4_released_means_released(lookahead_pages: int) -> None:
    """No tensor of a page outlives its place: features the page, a block its copy, a reference its eviction."""
    gc.disable()  # reference counts alone must do; a cycle would keep pages until the collector runs
    try:
        features: dict[int, weakref.ref[Any]] = {}
        alive: list[int] = []
        model = Traced()
        decoder = ContinuousDecoder(model, configured(lookahead_pages=lookahead_pages))
        references: dict[int, list[weakref.ref[Any]]] = {}
        for result in decoder.decode(traced_pages(20, features, alive)):
            number = result.page_number
            assert features[number]() is None
            assert all(trace() is None for trace in model.traces[number])
            store = decoder.context.store
            for held in store.page_numbers:
                references.setdefault(held, [weakref.ref(part) for part in store[held].parts().values()])
            for page_number, traces in references.items():
                assert all((trace() is None) == (page_number not in store) for trace in traces)
        assert max(alive) == lookahead_pages
        assert len(references) > SMALL.reference_pages
    finally:
        gc.enable()


@pytest.mark.parametrize("stage", ["prefill", "decode"])
def test_invariant_4_holds_for_a_page_that_fails(stage: str) -> None:
    """A traceback would keep every tensor of the frames it passed alive."""
    features: dict[int, weakref.ref[Any]] = {}

    def fail(page_number: int) -> Any:
        return MemoryError() if page_number == 5 else [page_number]

    model = ScriptedModel(**{"script" if stage == "decode" else "prefill_script": fail})
    results = ContinuousDecoder(model, SMALL).decode(traced_pages(8, features, []))
    gc.disable()
    try:
        for result in results:
            assert features[result.page_number]() is None
            assert (result.status == "failed") == (result.page_number == 5)
    finally:
        gc.enable()


# 5. Positions stay legal


def test_invariant_5_positions_stay_legal() -> None:
    """5,000 pages: no position, and no turn of any query or key, ever leaves the model's range."""
    geometry = Geometry(1, 1, 4, page_tokens=3, max_positions=128, sink_tokens=2, prompt_tokens=2)
    context = AttentionContext(geometry, SMALL)
    seen, turned = set(), set()
    new = torch.ones(1, 1, 4)

    def note(step: Step) -> Step:
        seen.update(step.positions.tolist())
        for span in step.spans:
            turned.update((step.positions[[0, -1]] - span.origin).tolist())
        return step

    note(context.open_sink(2))
    for page_number in range(1, 5001):
        context.begin_page(page_number)
        context.make_room()
        note(context.open_page(page_number, 3))
        note(context.open_prompt(1))
        if page_number % 50 == 0:
            context.fetch(torch.ones(1, 1, 1, 4), uncertainty=1.0)
        for _ in range(3 if page_number % 50 == 0 else 1):
            note(context.open_text()).attend(0, new, new, new)
    print(f"positions {min(seen)} to {max(seen)}, turns {min(turned)} to {max(turned)} of {geometry.max_positions}")
    assert 0 <= min(seen) <= max(seen) < geometry.max_positions
    assert -geometry.max_positions < min(turned) <= max(turned) < geometry.max_positions
    assert max(seen) == context.bands.text.start + 2


# 6. The store is bounded


@pytest.mark.parametrize("seed", range(5))
def test_invariant_6_the_store_is_bounded(seed: int) -> None:
    """Any order of pages, repeats and duplicates included; the list model of it is in test_sr_swa_store.py."""
    draw = random.Random(seed)
    store = SparseReferenceStore(FAKE_GEOMETRY, capacity_pages=5, reference_tokens=2)
    keys = [torch.randn(1, 1, 8, 4) for _ in range(6)]
    payload = {"ids": torch.zeros(8, 2, dtype=torch.int32), "rarity": torch.zeros(8)}
    pages = [draw.randint(1, 20) for _ in range(200)]
    largest_bytes = 0
    for page_number in pages:
        said = draw.choice(keys)
        store.compress_and_store(KVBlock(page_number, said, said, torch.arange(8), payload), torch.rand(8))
        store.record_use(draw.randint(1, 20), page_number)
        assert len(store) <= 5
        assert page_number in store
        largest_bytes = max(largest_bytes, store.nbytes)
    assert largest_bytes == 5 * 2 * (2 * 4 * 4 + 2 * 4 + 4)


def test_all_models_of_the_tests_are_ocr_models() -> None:
    models: list[OcrModel] = [ScriptedModel(), ReferenceTransformer()]
    assert len({model.fingerprint for model in models}) == 2
