"""Documents read side by side share page slots: a stated limit, a queue, and never one byte more."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.reference_transformer import ReferenceTransformer, written

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ConfigError
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.pool import SlotPool, borrowed_slots

CONFIG = SrSwaConfig(window_pages=2, max_window_pages=3, top_k=1, reference_tokens=2, reference_pages=4, tail_tokens=4)
PATIENCE_SECONDS = 60


def read(model: ReferenceTransformer, pool: SlotPool | None, first: int) -> list[list[int]]:
    model = ReferenceTransformer()
    pages = [model.page(number) for number in range(first, first + 5)]
    if pool is None:
        return [written(page) for page in ContinuousDecoder(model, CONFIG).decode(pages)]
    with pool.lend(CONFIG) as slots:
        return [written(page) for page in ContinuousDecoder(model, CONFIG, slots=slots).decode(pages)]


def test_more_documents_than_the_pool_holds_wait_and_read_as_they_would_alone() -> None:
    model = ReferenceTransformer()
    pool = SlotPool(model.geometry, capacity_pages=7)  # two documents of three slots, and one slot over
    bytes_before, at_once, most = pool.nbytes, 0, 0
    lock, results = threading.Lock(), {}

    def document(number: int) -> None:
        nonlocal at_once, most
        reader = ReferenceTransformer()
        pages = [reader.page(page) for page in range(number, number + 5)]
        with pool.lend(CONFIG) as slots:
            with lock:
                at_once += 1
                most = max(most, at_once)
            decoder = ContinuousDecoder(reader, CONFIG, slots=slots)
            results[number] = [written(page) for page in decoder.decode(pages)]
            with lock:
                at_once -= 1

    threads = [threading.Thread(target=document, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert most <= 2
    assert results == {number: read(model, None, number) for number in range(1, 7)}
    assert (pool.free_pages, pool.nbytes) == (7, bytes_before)


def test_a_document_waits_until_another_has_ended() -> None:
    pool = SlotPool(ReferenceTransformer().geometry, capacity_pages=4)
    entered = threading.Event()

    def second() -> None:
        with pool.lend(CONFIG):
            entered.set()

    thread = threading.Thread(target=second)
    with pool.lend(CONFIG):
        thread.start()
        assert not entered.wait(0.2)
    assert entered.wait(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)


def test_slots_come_back_when_a_document_fails() -> None:
    pool = SlotPool(ReferenceTransformer().geometry, capacity_pages=3)

    def fail() -> None:
        with pool.lend(CONFIG) as slots:
            ContinuousDecoder(ReferenceTransformer(), CONFIG, slots=slots)
            raise RuntimeError("torn")

    with pytest.raises(RuntimeError, match="torn"):
        fail()
    assert pool.free_pages == 3


def test_the_windows_of_documents_take_no_memory_beside_the_pool() -> None:
    model = ReferenceTransformer()
    pool = SlotPool(model.geometry, capacity_pages=3)
    with pool.lend(CONFIG) as slots:
        window = ContinuousDecoder(model, CONFIG, slots=slots).context.window
        lent = {slot.buffer.keys.data_ptr() for slot in window._slots}
        assert lent <= {slot.buffer.keys.data_ptr() for slot in pool._slots}
        window.resize(3)
        window.resize(1)
        window.resize(3)  # a slot given back is taken again


def test_a_pool_too_small_for_one_document_is_refused_with_both_numbers() -> None:
    pool = SlotPool(ReferenceTransformer().geometry, capacity_pages=2)
    with pytest.raises(ConfigError, match="needs 3 page slots, the pool has 2"), pool.lend(CONFIG):
        pass


def test_a_model_without_a_pool_lends_nothing_and_lets_nobody_wait() -> None:
    model: Any = ReferenceTransformer()
    with borrowed_slots(model, CONFIG) as slots:
        assert slots is None
    model.pool = SlotPool(model.geometry, 3)
    with borrowed_slots(model, CONFIG) as slots:
        assert slots is not None
        assert model.pool.free_pages == 0
