"""The process that holds the model and runs the steps of chunks, seen from the flow that waits for them.

A step in C cannot be stopped from within its process, and a crash of it takes the process along. So steps run
in a child, which the flow ends and starts again when a page takes too long or the child has died. Knows
nothing of what a step does (``steps.py``) and imports nothing heavy.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from data_contracts.errors import StepLost
from data_contracts.out_of_memory import memory_bound
from data_contracts.step_request import StepRequest

STEPS_MODULE = "flows.execution.steps"
FLAT_MEMORY = {
    "GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.mmap_threshold=1048576:glibc.malloc.hugetlb=1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
}
"""Set for the child, whose pages and lines all differ in size. Without it glibc gives each thread a heap and keeps what
the largest page needed, full of holes (0.4 GB more after a hundred pages); blocks of 1 MB and more are given back at
once instead, in huge pages, which makes up for the page faults. And torch keeps a compiled kernel for each of the last
1,024 shapes (0.2 GB more)."""
START_TIMEOUT_S = 300.0
"""For the child's first word: importing torch from a cold disk takes its time, and is no fault of a page."""


class StepProcess:
    """Runs steps in a child that is started when needed and started again when lost. Threads may share it.

    Invariant: at most one child lives; it ends with this process, however that ends.
    """

    def __init__(self) -> None:
        """Start nothing yet."""
        self._starting = threading.Lock()
        self._child: _Child | None = None
        self._is_closed = False
        self.peak_memory_bytes = 0

    def __enter__(self) -> StepProcess:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child for good."""
        self.close()

    def close(self) -> None:
        """End the child for good: steps in work and those to come are interrupted."""
        with self._starting:
            self._is_closed = True
            if self._child is not None:
                self._child.end()

    def call(self, request: StepRequest, timeout_s: float) -> Any:
        """Return what the step returns; ``timeout_s`` is the longest time without a sign of life from it.

        Raises:
            StepLost: the step gave no sign of life, and its process was ended; or the process died.
            TomeflowError: what the step raised.
        """
        while True:
            try:
                answer, peak_bytes = self._living_child().run(request, timeout_s)
            except _EndedForAnother:
                continue
            self.peak_memory_bytes = max(self.peak_memory_bytes, peak_bytes)
            return answer

    def _living_child(self) -> _Child:
        with self._starting:
            if self._is_closed:
                raise KeyboardInterrupt
            if self._child is None or self._child.is_lost:
                self._child = _Child()
            return self._child


@cache
def shared_process() -> StepProcess:
    """Return the one that all documents of this process share, and so its model."""
    return StepProcess()


class _EndedForAnother(Exception):
    """The child was ended because of another job, or before this one reached it: no fault of this one."""


class _Child:
    """One life of the child: a process, the socket to it, and the jobs it is at."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", STEPS_MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**FLAT_MEMORY, **os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard output belongs to --json
            )
        self._connection = Connection(ours.detach())
        self._changing = threading.Lock()
        self._numbers = count()
        self._jobs: dict[int, queue.SimpleQueue[tuple[Any, ...]]] = {}
        self._is_ended_by_us = False
        self.is_lost = False
        threading.Thread(target=self._receive, daemon=True).start()

    def run(self, request: StepRequest, timeout_s: float) -> tuple[Any, int]:
        """Return the answer and the child's peak memory [bytes]; see ``StepProcess.call``."""
        number, inbox = self._begin(request)
        page_number: int | None = None
        patience_s = START_TIMEOUT_S
        try:
            while True:
                try:
                    kind, *content = inbox.get(timeout=patience_s)
                except queue.Empty:
                    self.end()
                    reason = f"no sign of life for {patience_s:.0f} s, so the process that read was ended"
                    raise _lost(reason, page_number) from None
                patience_s = timeout_s
                if kind == "page":
                    (page_number,) = content
                elif kind == "log":
                    _log(content[0], request.name.partition("/")[0])
                elif kind == "done":
                    return content[0], content[1]
                elif kind == "failed":
                    raise content[0]
                elif kind == "lost" and self._is_ended_by_us:
                    raise _EndedForAnother
                elif kind == "lost":
                    raise _lost(f"the process that read ended by itself ({self._how_it_ended()})", page_number)
        finally:
            with self._changing:
                del self._jobs[number]

    def _begin(self, request: StepRequest) -> tuple[int, queue.SimpleQueue[tuple[Any, ...]]]:
        inbox: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        with self._changing:
            if self.is_lost:
                raise _EndedForAnother
            number = next(self._numbers)
            self._jobs[number] = inbox
            with suppress(OSError):  # lost just now; the receiver says so to every job
                self._connection.send((number, request))
        return number, inbox

    def _receive(self) -> None:
        """Hand every message to the job it is about, until the child is lost; then tell all."""
        try:
            while True:
                number, *message = self._connection.recv()
                with self._changing:
                    if number in self._jobs:
                        self._jobs[number].put(tuple(message))
        except (EOFError, OSError):
            self._process.wait()
            with self._changing:
                self.is_lost = True
                for inbox in self._jobs.values():
                    inbox.put(("lost",))

    def end(self) -> None:
        """End the process, whatever it is at: no job but the one that asked for it is to blame."""
        with self._changing:
            self._is_ended_by_us = True
        self._process.kill()
        self._process.wait()

    def _how_it_ended(self) -> str:
        code = self._process.returncode
        if code == -signal.SIGKILL:
            return "killed, as the kernel does when memory runs out"
        bound = memory_bound().rstrip(". ")
        return f"{signal.Signals(-code).name if code < 0 else f'exit code {code}'}{f'; {bound}' if bound else ''}"


def _lost(reason: str, page_number: int | None) -> StepLost:
    remedy = "Run again." if page_number is None else "Run again, or leave the page out with --pages."
    error = StepLost(f"{reason}. {remedy}")
    error.page_number = page_number
    return error


def _log(record: logging.LogRecord, document_id: str) -> None:
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        record.document_id = document_id
        logger.handle(record)
