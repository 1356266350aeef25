"""How long a page took and how much memory it needed, on this machine in this run.

Knows nothing of what is decoded. What it measures goes into a sidecar and the warehouse and is part of
no state and of no reading: two equal runs differ here and nowhere else.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from data_contracts.result import PageTimings
from models.process_memory import process_peak_bytes

KEPT_PAGES = 1024
"""Timings that nobody takes are dropped beyond the largest chunk, so that a meter never grows."""
MS_PER_SECOND = 1000.0


@dataclass
class PageMeasurement:
    """The page being measured. ``timings`` is set once the page has been left."""

    page_number: int
    steps_ms: list[float] = field(default_factory=list)
    timings: PageTimings | None = None

    def step(self, ms: float) -> None:
        """Note the duration of one decode step [ms]."""
        self.steps_ms.append(ms)


class PageMeter:
    """Measures one page at a time. Invariant: holds at most ``KEPT_PAGES`` timings.

    ``device`` is a torch device name. On ``cuda`` the peak is that of the page alone, since the counter
    can be reset; on the CPU it is the process' high-water mark so far. ``clock`` returns seconds.
    """

    def __init__(self, device: str = "cpu", clock: Callable[[], float] = time.perf_counter) -> None:
        """Measure nothing yet."""
        self._device = torch.device(device)
        self._clock = clock
        self._timings: deque[PageTimings] = deque(maxlen=KEPT_PAGES)

    @contextmanager
    def page(self, page_number: int) -> Iterator[PageMeasurement]:
        """Measure the body; a page that fails is measured too, up to where it failed."""
        measurement = PageMeasurement(page_number)
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        started = self._clock()
        try:
            yield measurement
        finally:
            decode_ms = (self._clock() - started) * MS_PER_SECOND
            measurement.timings = _timings(measurement, decode_ms, self.peak_memory_bytes())
            self._timings.append(measurement.timings)

    def peak_memory_bytes(self) -> int:
        """Return the peak [bytes]: of the page on a GPU, of the process so far on the CPU."""
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        return process_peak_bytes()

    def take(self) -> tuple[PageTimings, ...]:
        """Return the timings since the last call, oldest first, and forget them."""
        taken = tuple(self._timings)
        self._timings.clear()
        return taken


def _timings(measurement: PageMeasurement, decode_ms: float, peak_memory_bytes: int) -> PageTimings:
    p50, p95 = np.percentile(measurement.steps_ms, (50, 95)).tolist() if measurement.steps_ms else (None, None)
    return PageTimings(
        page_number=measurement.page_number,
        decode_ms=decode_ms,
        step_latency_p50_ms=p50,
        step_latency_p95_ms=p95,
        peak_memory_bytes=peak_memory_bytes,
    )
