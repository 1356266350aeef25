"""Work that hangs, dies or fills the memory costs its own process: the caller is told which of these it was."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.failures.processes import children_of, until

from data_contracts.errors import OutOfMemory, RenderFailed
from tasks.isolation import LEAST_MEMORY_BYTES, IsolatedProcess, Lost, isolated_call

SECONDS = 60
CALLER = """
from tasks.isolation import isolated_call
from test_isolation import hang_in_c
isolated_call(hang_in_c, seconds=600)
"""


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, step: int) -> int:
        self.count += step
        return self.count


class Sleeper:
    def sleep(self) -> None:
        time.sleep(3600)


def hang_in_c() -> None:
    """Calls of C that hold the interpreter: no thread of it and no handler of a signal comes to its turn."""
    span = ctypes.PyDLL(None).strspn
    text = b"a" * (1 << 30)
    while True:
        span(text, b"a")


def die() -> None:
    ctypes.string_at(0)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill_memory() -> int:
    bound = max(LEAST_MEMORY_BYTES, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return len(np.empty(bound, np.uint8))


def refuse(page_number: int) -> None:
    error = RenderFailed("torn")
    error.page_number = page_number
    raise error


def picture(side_px: int) -> tuple[np.ndarray, float]:
    return np.arange(side_px * side_px * 3, dtype=np.uint8).reshape(side_px, side_px, 3), 300.0


@pytest.fixture
def process():
    with IsolatedProcess() as process:
        yield process


def test_answers_and_errors_come_as_they_are(process: IsolatedProcess) -> None:
    pixels, dpi = process.call(picture, 700, seconds=SECONDS)
    assert (dpi, pixels.flags.writeable) == (300.0, True)
    assert (pixels == picture(700)[0]).all()
    with pytest.raises(RenderFailed, match=r"^page 7: torn$"):
        process.call(refuse, 7, seconds=SECONDS)
    assert process.peak_memory_bytes > 0


def test_an_object_stays_in_its_process_from_call_to_call(process: IsolatedProcess) -> None:
    assert process.call(Counter, 5, seconds=SECONDS) is None
    assert [process.ask("add()", 2, seconds=SECONDS), process.ask("add()", 3, seconds=SECONDS)] == [7, 10]
    assert process.ask("count", seconds=SECONDS) == 10


def test_what_takes_too_long_is_ended_and_the_next_call_is_answered(process: IsolatedProcess) -> None:
    with pytest.raises(Lost, match="more than 1 s of processor time") as caught:
        process.call(hang_in_c, seconds=1)
    assert caught.value.is_too_slow
    assert not process.is_running
    assert process.call(max, 1, 2, seconds=SECONDS) == 2


@pytest.mark.parametrize(("function", "told"), [(die, "SIGSEGV"), (be_killed, "when memory runs out")])
def test_what_dies_is_told_by_its_end(process: IsolatedProcess, function, told: str) -> None:
    with pytest.raises(Lost, match=told) as caught:
        process.call(function, seconds=SECONDS)
    assert not caught.value.is_too_slow


def test_memory_has_a_bound_that_is_told(process: IsolatedProcess) -> None:
    with pytest.raises(OutOfMemory, match="more memory"):
        process.call(fill_memory, seconds=SECONDS)


def test_what_hangs_in_c_ends_with_its_caller() -> None:
    path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    caller = subprocess.Popen([sys.executable, "-c", CALLER], env={**os.environ, "PYTHONPATH": path})
    try:
        assert until(lambda: children_of(caller.pid), SECONDS)
        (child,) = children_of(caller.pid)
        busy = lambda: int(Path(f"/proc/{child}/stat").read_text().split()[13]) > 100  # noqa: E731  # ticks of 10 ms
        assert until(busy, 10 * SECONDS), "importing is over"
    finally:
        caller.kill()
        caller.wait()
    assert until(lambda: not Path(f"/proc/{child}").exists(), SECONDS)


def test_a_process_that_has_answered_serves_the_next_caller_without_what_it_had_made() -> None:
    with IsolatedProcess() as first:
        first.call(Counter, 5, seconds=SECONDS)
        served_by = first.call(os.getpid, seconds=SECONDS)
    assert isolated_call(os.getpid, seconds=SECONDS) == served_by
    with IsolatedProcess() as second:
        assert second.call(os.getpid, seconds=SECONDS) == served_by
        with pytest.raises(AttributeError):
            second.ask("count", seconds=SECONDS)


def test_a_process_in_the_middle_of_a_call_serves_nobody_else() -> None:
    with IsolatedProcess() as lost:
        served_by = lost.call(os.getpid, seconds=SECONDS)
        with pytest.raises(Lost):
            lost.call(be_killed, seconds=SECONDS)
    assert isolated_call(os.getpid, seconds=SECONDS) != served_by


def test_a_process_that_owes_an_answer_is_ended_and_serves_nobody_else() -> None:
    with IsolatedProcess() as waiting:
        served_by = waiting.call(os.getpid, seconds=SECONDS)
        waiting.call(Sleeper, seconds=SECONDS)
        with pytest.raises(Lost, match="more than 1 s"):
            waiting.ask("sleep()", seconds=SECONDS, clock_seconds=1)
    assert isolated_call(os.getpid, seconds=SECONDS) != served_by
