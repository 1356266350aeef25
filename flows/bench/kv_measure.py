"""What SR-SWA and its baselines hold and how long a step takes, on tensors that are really allocated.

Turns pages of made-up keys and values through the same ``AttentionContext`` that reads documents; the decoder
around it is missing, so nothing here speaks of accuracy. Bytes are storages, not shapes, and their maximum over
every update: page turns, fetches and each output token. What is too large to allocate is allocated in part and
multiplied, and the record says so. Where attention is computed, it is that of one layer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from data_contracts.errors import ContractViolated
from flows.bench.page_turner import PageTurner, Setup, Tokens, drawing
from models.process_memory import process_peak_bytes
from models.sr_swa.baselines import Baseline, ring_attention_tokens
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.meter import MS_PER_SECOND

EARLY_PAGE = 80
"""The step at the last page is compared with the one here, where window and store are full."""
WARM_UP_STEPS = 2
MIN_TIMED_STEPS = 3
TIMING_SECONDS = 3.0
"""A step of milliseconds is timed some hundred times, one of seconds ``MIN_TIMED_STEPS`` times."""
MAX_TIMED_STEPS = 200
RING_DEVICES = 8


@dataclass(frozen=True)
class Measured:
    """SR-SWA's figures for all layers: bytes of the slice times all layers over its layers, and the process' peak."""

    live_kv_bytes: int
    store_kv_bytes: int
    both_kv_bytes: tuple[int, ...]
    part_bytes: dict[str, int]
    bookkeeping_bytes: int
    growth_bytes_per_page: float | None
    peak_process_bytes: int
    peak_process_growth_bytes: int | None


@dataclass(frozen=True)
class Contender:
    """A baseline at the last page. Bytes are of all layers; ``allocated`` says how they were come by.

    ``step_ms`` is the median step of one layer by page; at ``scaled_pages`` what fits was timed and multiplied.
    """

    name: str
    tokens_after: Callable[[int], int]
    token_bytes: int
    allocated: str
    step_ms: dict[int, float] = field(default_factory=dict)
    scaled_pages: tuple[int, ...] = ()

    def kv_bytes(self, page_number: int) -> int:
        """Bytes held after ``page_number`` pages."""
        return self.tokens_after(page_number) * self.token_bytes

    def growth_bytes_per_page(self, page_number: int) -> float:
        """Bytes a page from ``page_number`` on, over as many pages as Ring Attention has devices."""
        return (self.kv_bytes(page_number + RING_DEVICES) - self.kv_bytes(page_number)) / RING_DEVICES


def measure_memory(setup: Setup, turner: PageTurner) -> Measured:
    """Let ``turner`` read all pages; return the most that it held and what was added after everything had filled."""
    turner.read_to(min(setup.full_page, setup.pages))
    peak_when_full = _peak_bytes(setup)
    turner.read_to(setup.pages)
    peak = _peak_bytes(setup)
    context, high_water = turner.context, turner.high_water
    since_full = high_water.both[setup.full_page - 1 :]
    grown_pages = len(since_full) - 1

    def whole(size_bytes: int) -> int:
        return size_bytes * setup.geometry.layers // setup.layers

    return Measured(
        live_kv_bytes=whole(high_water.live),
        store_kv_bytes=whole(high_water.store),
        both_kv_bytes=tuple(map(whole, high_water.both)),
        part_bytes={
            "sink": whole(context.sink.nbytes),
            "references": whole(context.references.nbytes),
            "window": whole(context.window.nbytes),
            "prompt": whole(context.prompt.nbytes),
            "tail": whole(context.tail.buffer.nbytes),
            "store": whole(context.store.nbytes),
        },
        bookkeeping_bytes=high_water.bookkeeping,
        growth_bytes_per_page=whole(max(since_full) - min(since_full)) / grown_pages if grown_pages > 0 else None,
        peak_process_bytes=peak,
        peak_process_growth_bytes=peak - peak_when_full if grown_pages > 0 else None,
    )


def measure_steps(setup: Setup) -> dict[int, float]:
    """Return the median step of SR-SWA through one layer [ms] at each of ``depths``."""
    turners = {page: PageTurner(setup, layers=1).read_to(page) for page in setup.depths}
    return median_ms({page: turner.step for page, turner in turners.items()}, setup.device)


def measure_latency_ratio(setup: Setup, late: PageTurner) -> float | None:
    """Return the step of ``late``, of one layer, at the last page over that at page 80: median of interleaved pairs."""
    if setup.pages <= EARLY_PAGE:
        return None
    early = PageTurner(setup, layers=1).read_to(EARLY_PAGE)
    late.read_to(setup.pages)
    ratios = []
    for pair in range(setup.latency_pairs + WARM_UP_STEPS):
        first, second = (early, late) if pair % 2 else (late, early)
        ms = {first: _timed_ms(first.step, setup.device), second: _timed_ms(second.step, setup.device)}
        ratios.append(ms[late] / ms[early])
    return statistics.median(ratios[WARM_UP_STEPS:])


def measure_baseline(setup: Setup, baseline: type[Baseline]) -> Contender:
    """Allocate ``baseline`` for all pages as far as it fits, read them, release it, and time its steps.

    Raises:
        ContractViolated: what was allocated is not what the baseline's formula says.
    """
    workload, geometry = setup.workload, setup.geometry
    layers, pages = _fitting(setup, baseline, setup.pages)
    cache = read_baseline(baseline(workload, pages, layers), pages)
    expected_bytes = baseline.tokens_after(workload, pages) * cache.geometry.bytes_per_token
    if cache.kv_bytes != expected_bytes:
        raise ContractViolated(f"{baseline.name} holds {cache.kv_bytes} bytes, its formula says {expected_bytes}")
    del cache
    step_ms, scaled_pages = _baseline_steps(setup, baseline)
    return Contender(
        name=baseline.name,
        tokens_after=lambda page: baseline.tokens_after(workload, page),
        token_bytes=geometry.bytes_per_token,
        allocated=allocation(layers, geometry.layers, pages, setup.pages),
        step_ms=step_ms,
        scaled_pages=scaled_pages,
    )


def ring_attention(setup: Setup) -> Contender:
    """Return what Ring Attention holds on each of its devices, by formula; nothing is allocated or timed."""
    return Contender(
        name=f"Ring Attention, each of {RING_DEVICES} devices",
        tokens_after=lambda page: ring_attention_tokens(setup.workload, page, RING_DEVICES),
        token_bytes=setup.geometry.bytes_per_token,
        allocated="formula only: its own share and the block in transit",
    )


def read_baseline(cache: Baseline, page_number: int) -> Baseline:
    """Let ``cache`` read one made-up page again and again until it has read ``page_number`` pages."""
    geometry = cache.geometry
    shape = (geometry.layers, geometry.kv_heads, cache.workload.page_tokens, geometry.head_dim)
    states = drawing(geometry)(1, *shape[1:]).expand(shape)
    page = KVBlock(0, states, states, torch.arange(shape[2], device=geometry.device))
    while cache.pages_read < page_number:
        cache.read_page(page)
    return cache


def allocation(layers: int, all_layers: int, pages: int, all_pages: int) -> str:
    """Say what was allocated and what multiplied."""
    if (layers, pages) == (all_layers, all_pages):
        return f"all {layers} layers"
    of_pages = f", {pages:,} of {all_pages:,} pages" if pages != all_pages else ""
    return f"{layers} of {all_layers} layers{of_pages}; the rest multiplied"


def median_ms(steps: Mapping[int, Callable[[], None]], device: str) -> dict[int, float]:
    """Return the median duration of each of ``steps`` [ms], timed in turn, so that a busy machine slows all alike."""
    timed: dict[int, list[float]] = {page: [] for page in steps}
    stop = time.perf_counter() + TIMING_SECONDS * len(steps)
    for rounds in range(WARM_UP_STEPS + MAX_TIMED_STEPS):
        if rounds >= WARM_UP_STEPS + MIN_TIMED_STEPS and time.perf_counter() > stop:
            break
        for page, step in steps.items():
            timed[page].append(_timed_ms(step, device))
    return {page: statistics.median(ms[WARM_UP_STEPS:]) for page, ms in timed.items()}


def _baseline_steps(setup: Setup, baseline: type[Baseline]) -> tuple[dict[int, float], tuple[int, ...]]:
    """Return the median step through one layer [ms] by page, and the pages at which it had to be multiplied."""
    if not setup.depths:
        return {}, ()
    workload = setup.workload
    _, fitting_pages = _fitting(setup, baseline, max(setup.depths))
    cache = read_baseline(baseline(workload, fitting_pages, layers=1), fitting_pages)
    token = Tokens.of(cache.geometry, 1, drawing(cache.geometry))

    def step_at(page: int) -> Callable[[], None]:
        return lambda: token.attend(cache.open_step(min(page, fitting_pages)))

    timed_ms = median_ms({page: step_at(page) for page in setup.depths}, setup.device)
    scaled_pages = tuple(page for page in setup.depths if page > fitting_pages)
    held_tokens = baseline.tokens_after(workload, fitting_pages)
    multiples = {page: baseline.tokens_after(workload, page) / held_tokens for page in scaled_pages}
    return {page: ms * multiples.get(page, 1) for page, ms in timed_ms.items()}, scaled_pages


def _fitting(setup: Setup, baseline: type[Baseline], pages: int) -> tuple[int, int]:
    """Return (layers, pages) of ``baseline`` that fit into ``baseline_bytes``: fewer layers first, then fewer pages.

    No baseline gets more layers than are measured of SR-SWA.
    """
    workload, all_layers = setup.workload, setup.geometry.layers
    fitting_tokens = setup.baseline_bytes // (workload.geometry.bytes_per_token // all_layers)
    layers = fitting_tokens // baseline.tokens_after(workload, pages)
    if layers:
        return min(layers, setup.layers), pages
    return 1, max(
        (page for page in range(1, pages) if baseline.tokens_after(workload, page) <= fitting_tokens), default=1
    )


def _timed_ms(step: Callable[[], None], device: str) -> float:
    started = time.perf_counter()
    step()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)  # a GPU returns before it has done what it was asked for
    return (time.perf_counter() - started) * MS_PER_SECOND


def _peak_bytes(setup: Setup) -> int:
    """Return the peak so far: of the device if it is a GPU, else of this process."""
    return torch.cuda.max_memory_allocated(setup.device) if setup.device.startswith("cuda") else process_peak_bytes()
