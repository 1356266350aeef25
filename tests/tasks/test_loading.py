"""Loading ahead is bounded, in order, stopped by memory, and never changes what is loaded."""

from __future__ import annotations

import logging
import threading
import weakref

import numpy as np
import pytest

from data_contracts.errors import RenderFailed
from models.sr_swa.controller import MemoryWatermark
from models.sr_swa.pages import PageImage
from tasks.loading import QUEUE_DEPTH_PAGES, LoadingAhead

PAGES = range(1, 13)
TORN = 5
CALM = MemoryWatermark(read=lambda: 0.1)


class Renderer:
    """Renders small pages, notes who was asked for, and the most that were alive at a time."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.most_alive = 0
        self._made: list[weakref.ref[PageImage]] = []
        self.rendered = threading.Condition()

    def __call__(self, page_number: int) -> PageImage:
        with self.rendered:
            self.asked.append(page_number)
            self.rendered.notify_all()
        if page_number == TORN:
            raise RenderFailed("the page is torn")
        image = PageImage(page_number, np.full((4, 4, 3), page_number, np.uint8), 72.0)
        self._made.append(weakref.ref(image))
        self.most_alive = max(self.most_alive, sum(made() is not None for made in self._made))
        return image

    def wait_for(self, page_number: int) -> None:
        with self.rendered:
            assert self.rendered.wait_for(lambda: page_number in self.asked, timeout=60)


def test_never_more_than_the_queue_and_the_page_in_work_are_alive() -> None:
    renderer, pages = Renderer(), [number for number in PAGES if number != TORN]
    with LoadingAhead(renderer, pages, CALM) as loading:
        for number, following in zip(pages, [*pages[1:], None], strict=True):
            image = loading.take(number)
            assert image.pixels[0, 0, 0] == number == image.page_number
            if following:
                renderer.wait_for(following)  # it is loaded while this one is in work
            del image
    assert renderer.most_alive == QUEUE_DEPTH_PAGES + 1
    assert renderer.asked == pages, "each once, in order"


def test_a_torn_page_fails_when_it_is_taken_and_costs_no_other() -> None:
    with LoadingAhead(Renderer(), PAGES, CALM) as loading:
        for number in PAGES:
            if number == TORN:
                with pytest.raises(RenderFailed, match="torn"):
                    loading.take(number)
            else:
                assert loading.take(number).page_number == number


def test_above_the_high_mark_nothing_is_loaded_ahead_and_the_log_says_when_that_begins_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    used = {number: 0.9 if 4 <= number <= 8 else 0.5 for number in PAGES}
    now = [1]
    renderer = Renderer()
    with (
        caplog.at_level(logging.WARNING, "tomeflow.encode"),
        LoadingAhead(renderer, (n for n in PAGES if n != TORN), MemoryWatermark(read=lambda: used[now[0]])) as loading,
    ):
        for number in (n for n in PAGES if n != TORN):
            now[0] = number
            loading.take(number)
            assert max(renderer.asked) <= (number if used[number] > 0.85 and number > 4 else number + 2)
    assert [record.event for record in caplog.records] == ["loading_paused", "loading_resumed"]
    assert "page 6: loading ahead pauses, 90 % of memory is in use" in caplog.text
    assert renderer.asked == [n for n in PAGES if n != TORN]


def test_what_waits_is_dropped_at_the_end() -> None:
    renderer = Renderer()
    with LoadingAhead(renderer, PAGES, CALM) as loading:
        loading.take(1)
    assert set(renderer.asked) <= {1, 2}
