from __future__ import annotations

import pytest
import torch

from models.process_memory import process_peak_bytes
from models.sr_swa.meter import KEPT_PAGES, PageMeter


class ScriptedClock:
    """Returns the given seconds one after another."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = iter(seconds)

    def __call__(self) -> float:
        return next(self._seconds)


def test_a_page_is_measured_from_entering_to_leaving() -> None:
    meter = PageMeter(clock=ScriptedClock(10.0, 10.25))
    with meter.page(3):
        pass
    (timings,) = meter.take()
    assert timings.page_number == 3
    assert timings.decode_ms == pytest.approx(250.0)


def test_step_latencies_are_given_as_median_and_95th_percentile() -> None:
    meter = PageMeter()
    with meter.page(1) as measurement:
        for ms in range(101):
            measurement.step(float(ms))
    assert measurement.timings is not None
    assert measurement.timings.step_latency_p50_ms == pytest.approx(50.0)
    assert measurement.timings.step_latency_p95_ms == pytest.approx(95.0)


def test_a_page_without_steps_has_no_step_latency() -> None:
    meter = PageMeter()
    with meter.page(1) as measurement:
        pass
    assert measurement.timings is not None
    assert measurement.timings.step_latency_p50_ms is None
    assert measurement.timings.step_latency_p95_ms is None


def test_a_page_that_fails_is_measured_too() -> None:
    meter = PageMeter()
    with pytest.raises(RuntimeError, match="torn"), meter.page(7):
        raise RuntimeError("torn")
    assert [timings.page_number for timings in meter.take()] == [7]


def test_taking_timings_forgets_them() -> None:
    meter = PageMeter()
    for page_number in (1, 2):
        with meter.page(page_number):
            pass
    assert [timings.page_number for timings in meter.take()] == [1, 2]
    assert meter.take() == ()


def test_timings_that_nobody_takes_stay_bounded_and_the_newest_are_kept() -> None:
    meter = PageMeter()
    for page_number in range(1, KEPT_PAGES + 11):
        with meter.page(page_number):
            pass
    taken = meter.take()
    assert len(taken) == KEPT_PAGES
    assert taken[-1].page_number == KEPT_PAGES + 10


def test_on_the_cpu_the_peak_is_the_high_water_mark_of_the_process() -> None:
    meter = PageMeter()
    above_the_mark_bytes = process_peak_bytes() + 32_000_000
    with meter.page(1) as measurement:
        torch.ones(above_the_mark_bytes, dtype=torch.uint8)
    assert measurement.timings is not None
    assert measurement.timings.peak_memory_bytes >= above_the_mark_bytes


@pytest.mark.gpu
def test_on_a_gpu_the_peak_is_that_of_the_page_alone() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    meter = PageMeter("cuda")
    with meter.page(1) as large:
        torch.ones(64_000_000, dtype=torch.uint8, device="cuda")
    with meter.page(2) as small:
        torch.ones(1_000, dtype=torch.uint8, device="cuda")
    assert large.timings is not None
    assert small.timings is not None
    assert small.timings.peak_memory_bytes < large.timings.peak_memory_bytes
