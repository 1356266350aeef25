from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ConfigError
from data_contracts.result import Event
from models.sr_swa.controller import (
    CALM_PAGES,
    LOW_RATIO,
    MAX_CALM_PAGES,
    MAX_PAUSES,
    PAUSE_SECONDS,
    RECALL_PAGES,
    ContextController,
    MemoryWatermark,
    Patience,
)

CALM, STEADY, HIGH, CRITICAL = 0.1, 0.8, 0.9, 0.97
"""One reading in each band of the default marks 0.70, 0.85 and 0.95."""
DEFAULT = SrSwaConfig()
IN_VAIN = {"gate_fired": 5, "references_fetched": 20, "references_hit": 0}
USEFUL = {"gate_fired": 5, "references_fetched": 20, "references_hit": 15}
HALFWAY = {"gate_fired": 5, "references_fetched": 20, "references_hit": 6}
UNNEEDED = {"gate_fired": 0, "references_fetched": 0, "references_hit": 0}


class Gauge:
    """A memory gauge that shows the given ratios one after another, then the last one for good."""

    def __init__(self, *ratios: float) -> None:
        self._ratios = list(ratios)

    def __call__(self) -> float:
        return self._ratios.pop(0) if len(self._ratios) > 1 else self._ratios[0]

    def show(self, *ratios: float) -> None:
        self._ratios = list(ratios)


class Waits:
    """Remembers how long it was asked to wait, and returns at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def watched(gauge: Gauge, config: SrSwaConfig = DEFAULT, waits: Waits | None = None) -> ContextController:
    return ContextController(config, MemoryWatermark(gauge), waits or Waits())


def kinds(events: Iterable[Event]) -> list[str]:
    return [event.kind for event in events]


def windows_over(controller: ContextController, pages: int, first_page: int = 1) -> list[int]:
    windows = []
    for page_number in range(first_page, first_page + pages):
        controller.before_page(page_number)
        windows.append(controller.window_pages)
    return windows


def tell(controller: ContextController, page: dict[str, int], pages: int = RECALL_PAGES) -> list[Event]:
    return [event for number in range(1, pages + 1) for event in controller.after_page(number, **page)]


# Memory


def test_a_controller_starts_at_the_configured_window_and_is_not_degraded() -> None:
    controller = ContextController(DEFAULT, None)
    assert (controller.window_pages, controller.reference_tokens, controller.top_k) == (8, 16, 4)
    assert controller.degraded_by is None


def test_above_the_high_mark_the_window_shrinks_8_4_2_1_and_no_further() -> None:
    controller = watched(Gauge(HIGH))
    assert windows_over(controller, 5) == [4, 2, 1, 1, 1]
    assert controller.degraded_by == "memory"


def test_each_shrink_is_one_event_that_names_the_page_the_reading_and_the_windows() -> None:
    controller = watched(Gauge(HIGH))
    (event,) = controller.before_page(17)
    assert (event.kind, event.page_number) == ("window_shrunk", 17)
    for part in ("0.900", "0.85", "8 -> 4 pages"):
        assert part in event.detail


def test_at_the_narrowest_window_there_is_nothing_left_to_report() -> None:
    controller = watched(Gauge(HIGH))
    windows_over(controller, 3)
    assert controller.before_page(4) == []


def test_between_the_low_and_the_high_mark_nothing_changes_in_either_direction() -> None:
    gauge = Gauge(HIGH)
    controller = watched(gauge)
    windows_over(controller, 2)
    gauge.show(STEADY)
    assert windows_over(controller, 10 * CALM_PAGES) == [2] * 10 * CALM_PAGES


def test_the_window_comes_back_one_step_at_a_time_after_calm_pages_in_a_row() -> None:
    gauge = Gauge(HIGH)
    controller = watched(gauge)
    windows_over(controller, 3)
    gauge.show(CALM)
    expected = [1] * (CALM_PAGES - 1) + [2] * CALM_PAGES + [4] * CALM_PAGES + [8]
    assert windows_over(controller, len(expected)) == expected
    assert controller.degraded_by is None


def test_the_way_back_is_an_event_too() -> None:
    gauge = Gauge(HIGH)
    controller = watched(gauge)
    controller.before_page(1)
    gauge.show(CALM)
    events = [event for number in range(2, 2 + CALM_PAGES) for event in controller.before_page(number)]
    assert kinds(events) == ["window_restored"]
    assert "4 -> 8 pages" in events[0].detail


def test_one_page_that_is_not_calm_starts_the_count_anew() -> None:
    gauge = Gauge(HIGH)
    controller = watched(gauge)
    controller.before_page(1)
    gauge.show(*[CALM] * (CALM_PAGES - 1), STEADY, *[CALM] * (CALM_PAGES - 1), STEADY)
    assert windows_over(controller, 2 * CALM_PAGES) == [4] * 2 * CALM_PAGES


def test_above_the_critical_mark_loading_pauses_until_memory_falls() -> None:
    waits = Waits()
    controller = watched(Gauge(CRITICAL, CRITICAL, HIGH, CALM), waits=waits)
    events = controller.before_page(1)
    assert kinds(events) == ["window_shrunk", "loading_paused", "loading_paused", "loading_paused"]
    assert waits.seconds == [PAUSE_SECONDS] * 3


def test_above_high_but_not_critical_nothing_waits() -> None:
    waits = Waits()
    watched(Gauge(HIGH), waits=waits).before_page(1)
    assert waits.seconds == []


def test_pauses_are_bounded_until_memory_has_fallen_once() -> None:
    waits = Waits()
    gauge = Gauge(CRITICAL)
    controller = watched(gauge, waits=waits)
    windows_over(controller, 5)
    assert len(waits.seconds) == MAX_PAUSES
    gauge.show(CALM)
    controller.before_page(6)
    gauge.show(CRITICAL)
    controller.before_page(7)
    assert len(waits.seconds) == 2 * MAX_PAUSES


def test_out_of_memory_shrinks_at_once_whatever_the_watermark_says() -> None:
    controller = watched(Gauge(CALM))
    assert kinds(controller.out_of_memory(3)) == ["window_shrunk"]
    assert controller.window_pages == 4
    assert controller.degraded_by == "memory"


def test_without_a_watermark_the_window_still_comes_back_after_running_out_of_memory() -> None:
    controller = ContextController(DEFAULT, None)
    controller.out_of_memory(1)
    assert windows_over(controller, CALM_PAGES) == [4] * (CALM_PAGES - 1) + [8]


def test_out_of_memory_at_the_narrowest_window_says_by_no_event_that_nothing_is_left() -> None:
    controller = ContextController(SrSwaConfig(window_pages=2), None)
    assert controller.out_of_memory(1) != []
    assert controller.window_pages == 1
    assert controller.out_of_memory(1) == []


def test_a_window_that_is_no_power_of_two_shrinks_to_one_as_well() -> None:
    controller = watched(Gauge(HIGH), SrSwaConfig(window_pages=6))
    assert windows_over(controller, 3) == [3, 1, 1]


def test_a_way_back_that_was_too_early_asks_for_twice_the_patience() -> None:
    gauge = Gauge(HIGH, *[CALM] * CALM_PAGES, HIGH, CALM)
    controller = watched(gauge)
    windows = windows_over(controller, 2 + 3 * CALM_PAGES)
    assert windows[CALM_PAGES] == 8
    assert windows[CALM_PAGES + 1 : -1] == [4] * 2 * CALM_PAGES
    assert windows[-1] == 8


def test_patience_ends_somewhere() -> None:
    patience = Patience()
    for _ in range(20):
        while not patience.over_after_calm_page():
            pass
        patience.stepped()
    assert patience.needed_pages == MAX_CALM_PAGES


@pytest.mark.parametrize(
    "marks", [(0.9, 0.8, 0.95), (0.7, 0.7, 0.95), (0.7, 0.96, 0.95), (0.0, 0.5, 0.9), (0.5, 0.6, 1.1)]
)
def test_marks_out_of_order_are_refused_with_their_values(marks: tuple[float, float, float]) -> None:
    low, high, critical = marks
    with pytest.raises(ConfigError, match=f"low {low}, high {high}, critical {critical}"):
        MemoryWatermark(Gauge(CALM), high=high, critical=critical, low=low)


def test_the_process_gauge_is_the_share_of_the_given_limit() -> None:
    tight, roomy = (MemoryWatermark.for_process(limit).read() for limit in (10_000_000, 10_000_000_000_000))
    assert tight > 1.0
    assert 0.0 < roomy < 0.01


def test_without_a_limit_the_process_is_measured_against_its_container_or_machine() -> None:
    assert 0.0 < MemoryWatermark.for_process().read() < 1.0


def test_a_limit_that_is_no_amount_is_refused() -> None:
    with pytest.raises(ConfigError, match="0 bytes"):
        MemoryWatermark.for_process(0)


# Recall


def test_a_gate_that_fires_often_in_vain_widens_to_12_then_16_then_asks_for_denser_references() -> None:
    controller = ContextController(DEFAULT, None)
    steps = [(tell(controller, IN_VAIN), controller.window_pages, controller.reference_tokens) for _ in range(4)]
    assert [kinds(events) for events, _, _ in steps] == [
        ["window_widened"],
        ["window_widened"],
        ["references_denser"],
        [],
    ]
    assert [(window, tokens) for _, window, tokens in steps] == [(12, 16), (16, 16), (16, 32), (16, 32)]
    assert controller.degraded_by == "recall"


def test_a_window_that_cannot_widen_gets_denser_references_at_once() -> None:
    controller = ContextController(SrSwaConfig(max_window_pages=8), None)
    assert kinds(tell(controller, IN_VAIN)) == ["references_denser"]
    assert (controller.window_pages, controller.reference_tokens) == (8, 32)


def test_the_window_never_passes_the_widest_that_is_configured() -> None:
    controller = ContextController(SrSwaConfig(max_window_pages=14), None)
    windows = []
    for _ in range(4):
        tell(controller, IN_VAIN)
        windows.append(controller.window_pages)
    assert windows == [12, 14, 14, 14]
    assert controller.max_window_pages == 14


def test_recall_is_judged_only_over_a_full_count_of_pages() -> None:
    controller = ContextController(DEFAULT, None)
    assert tell(controller, IN_VAIN, RECALL_PAGES - 1) == []
    assert kinds(controller.after_page(RECALL_PAGES, **IN_VAIN)) == ["window_widened"]


@pytest.mark.parametrize("page", [USEFUL, HALFWAY, UNNEEDED])
def test_references_that_serve_or_are_not_needed_leave_the_window_alone(page: dict[str, int]) -> None:
    controller = ContextController(DEFAULT, None)
    assert tell(controller, page, 20 * RECALL_PAGES) == []


def test_a_gate_that_fires_while_the_store_is_empty_is_no_sign_of_poor_recall() -> None:
    controller = ContextController(DEFAULT, None)
    empty = {"gate_fired": 9, "references_fetched": 0, "references_hit": 0}
    assert tell(controller, empty, 20 * RECALL_PAGES) == []


def test_a_gate_that_fires_in_vain_but_not_often_leaves_the_window_alone() -> None:
    controller = ContextController(DEFAULT, None)
    pages = [IN_VAIN, UNNEEDED, UNNEEDED] * 5 * RECALL_PAGES
    assert [event for number, page in enumerate(pages, 1) for event in controller.after_page(number, **page)] == []


@pytest.mark.parametrize("recovered", [USEFUL, UNNEEDED])
def test_when_recall_recovers_every_step_is_taken_back(recovered: dict[str, int]) -> None:
    controller = ContextController(DEFAULT, None)
    tell(controller, IN_VAIN, 3 * RECALL_PAGES)
    events = tell(controller, recovered, 3 * (RECALL_PAGES + CALM_PAGES))
    assert kinds(events) == ["references_thinned", "window_narrowed", "window_narrowed"]
    assert (controller.window_pages, controller.reference_tokens) == (8, 16)
    assert controller.degraded_by is None


def test_half_way_recovered_is_not_recovered() -> None:
    controller = ContextController(DEFAULT, None)
    tell(controller, IN_VAIN)
    assert tell(controller, HALFWAY, 20 * RECALL_PAGES) == []


def test_one_page_that_spoils_the_recovery_starts_the_count_anew() -> None:
    controller = ContextController(DEFAULT, None)
    tell(controller, IN_VAIN)
    spoiler = {"gate_fired": 1, "references_fetched": 1000, "references_hit": 300}
    assert tell(controller, USEFUL, RECALL_PAGES + CALM_PAGES - 2) == []
    assert tell(controller, spoiler, 1) == []
    while_it_is_remembered = RECALL_PAGES - 1
    assert tell(controller, USEFUL, while_it_is_remembered + CALM_PAGES - 1) == []
    assert kinds(tell(controller, USEFUL, 1)) == ["window_narrowed"]


def test_memory_takes_back_what_recall_was_granted_and_grants_nothing_before_it_has_returned() -> None:
    gauge = Gauge(CALM)
    controller = watched(gauge)
    tell(controller, IN_VAIN, 3 * RECALL_PAGES)
    gauge.show(HIGH)
    controller.before_page(100)
    assert (controller.window_pages, controller.reference_tokens) == (4, 16)
    assert controller.degraded_by == "memory"
    assert tell(controller, IN_VAIN, 10 * RECALL_PAGES) == []
    gauge.show(CALM)
    windows_over(controller, CALM_PAGES)
    assert controller.degraded_by is None
    assert kinds(tell(controller, IN_VAIN)) == ["window_widened"]


# No flapping, and continuing from a snapshot

READINGS = st.lists(st.floats(0, 1.2), max_size=200)
PAGES = st.lists(st.sampled_from([IN_VAIN, USEFUL, HALFWAY, UNNEEDED]), max_size=200)


@given(READINGS)
def test_whatever_the_gauge_shows_the_window_is_one_of_the_ladder(readings: list[float]) -> None:
    controller = watched(Gauge(*readings, CALM))
    assert set(windows_over(controller, len(readings))) <= {1, 2, 4, 8}


@given(READINGS)
def test_the_window_grows_only_after_calm_pages_in_a_row(readings: list[float]) -> None:
    gauge = Gauge(CALM)
    controller = watched(gauge)
    for page_number, reading in enumerate(readings, 1):
        gauge.show(reading)
        before = controller.window_pages
        controller.before_page(page_number)
        if controller.window_pages > before:
            last = readings[:page_number][-CALM_PAGES:]
            assert len(last) == CALM_PAGES
            assert max(last) <= LOW_RATIO


@settings(max_examples=50)
@given(st.floats(0.02, 0.3), st.floats(0.0, 0.3))
def test_a_window_that_itself_causes_the_shortage_settles_instead_of_flapping(share: float, rest: float) -> None:
    """Memory follows the window: the worst case, since every way back brings the shortage back."""
    gauge = Gauge(CALM)
    controller = watched(gauge)
    windows = []
    for page_number in range(1, 3001):
        gauge.show(min(rest + share * controller.window_pages, 0.94))
        controller.before_page(page_number)
        windows.append(controller.window_pages)
    growths = sum(after > before for before, after in pairwise(windows))
    doublings = (MAX_CALM_PAGES // CALM_PAGES).bit_length()
    assert growths <= doublings + 3000 // MAX_CALM_PAGES


@given(PAGES)
def test_recall_moves_one_step_at_a_time_and_at_most_once_in_the_pages_it_judges(pages: list[dict[str, int]]) -> None:
    controller = ContextController(DEFAULT, None)
    moved = [n for n, page in enumerate(pages, 1) if controller.after_page(n, **page)]
    assert all(after - before >= RECALL_PAGES for before, after in pairwise(moved))
    assert controller.window_pages in (8, 12, 16)


@given(st.lists(st.tuples(st.floats(0, 1.2), st.sampled_from([IN_VAIN, USEFUL, HALFWAY])), max_size=120), st.data())
def test_a_controller_restored_from_a_snapshot_goes_on_as_if_nothing_had_happened(
    pages: list[tuple[float, dict[str, int]]], data: st.DataObject
) -> None:
    break_at = data.draw(st.integers(0, len(pages)))
    gauge = Gauge(CALM)
    through = resumed = watched(gauge)
    for page_number, (ratio, page) in enumerate(pages, 1):
        if page_number == break_at:
            resumed = watched(gauge)
            resumed.restore(*through.snapshot())
        for controller in {through, resumed}:
            gauge.show(ratio)
            controller.before_page(page_number)
            controller.after_page(page_number, **page)
    assert resumed.snapshot() == through.snapshot()


def test_the_pages_that_recall_is_judged_over_are_part_of_the_snapshot() -> None:
    before, after = ContextController(DEFAULT, None), ContextController(DEFAULT, None)
    tell(before, IN_VAIN, RECALL_PAGES - 1)
    after.restore(*before.snapshot())
    assert kinds(tell(after, IN_VAIN, 1)) == ["window_widened"]


def test_equal_pages_give_equal_steps_whatever_the_memory_below_the_high_mark() -> None:
    quiet, busy = watched(Gauge(CALM)), watched(Gauge(STEADY))
    for page_number in range(1, 200):
        page = IN_VAIN if page_number % 90 < 40 else USEFUL
        events = [
            controller.before_page(page_number) + controller.after_page(page_number, **page)
            for controller in (quiet, busy)
        ]
        assert events[0] == events[1]
    assert quiet.window_pages == busy.window_pages
