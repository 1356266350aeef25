"""Work on a file that may be made to do harm, in a process of its own with bounds: time, memory, and its own death.

MuPDF and Pillow run in C: nothing interrupts them, and a file of a hundred bytes can ask for years of work or for all
memory. So they work in a child. The kernel ends it when a call has used its processor time (``RLIMIT_CPU``) or asks for
more memory than it may have, and ends it first when the machine runs short. Processor time, not the clock: a busy
machine must not fail a good page. Knows nothing of what the calls do.
"""

from __future__ import annotations

import atexit
import fcntl
import math
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from data_contracts.errors import OutOfMemory, TomeflowError, TooCostlyDocument
from data_contracts.out_of_memory import is_out_of_memory, memory_bound
from models.process_memory import give_back_free_memory, process_peak_bytes

CLOCK_PER_PROCESSOR_TIME = 15
"""A call that waits (for a disk that does not answer) uses no processor time; after so many times its bound it ends."""
LEAST_CLOCK_SECONDS = 900.0
"""... but not before: a machine that is busy with other things has to get there."""
MEMORY_RATIO = 0.5
"""Of the machine's memory, what a child may ask for; no page needs as much."""
LEAST_MEMORY_BYTES = 4 << 30
"""... but so much on a small machine: addresses are counted, also those that are never used."""

BYTES_A_BOUND = 100_000_000
"""Honest work on a document grows with its bytes; a small file that takes long was made to."""
BOUND_SECONDS = 60.0
"""Processor time for a small document, where no configuration says otherwise."""

MOST_IDLE = 3
"""Children that are kept for the next call: as many as are at work at once, more or less."""
FORGETTING_SECONDS = 5.0
NOTHING_MADE = (object.__module__, object.__qualname__, ())
"""A call after which a child holds nothing of what it was asked before."""
_IDLE: list[tuple[subprocess.Popen[bytes], Connection]] = []
"""Taken and given in one step each, so that threads may share it; they end with this process, however that ends."""


def end_idle_processes() -> None:
    """End the children that nobody uses now."""
    while _IDLE:
        process = IsolatedProcess()
        process._child, process._connection = _IDLE.pop()
        process._end()


atexit.register(end_idle_processes)

_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from tasks.isolation import serve; serve(int(sys.argv[1]))"


class Lost(Exception):
    """The process ended before it answered; the message says why. ``is_too_slow``: the call used up its time."""

    def __init__(self, message: str, *, is_too_slow: bool = False) -> None:
        """Keep both."""
        super().__init__(message)
        self.is_too_slow = is_too_slow


class IsolatedProcess:
    """Runs calls in a child, one at a time. Invariant: at most one child is at work.

    A child that was lost is replaced at the next call; the object that it had made is gone with it. One that has
    answered all calls is kept for whoever needs a child next: starting one costs most of a second of processor time.
    """

    def __init__(self) -> None:
        """Start nothing yet."""
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._owes_an_answer = False
        self.peak_memory_bytes = 0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the child."""
        self.close()

    def close(self) -> None:
        """Have the child forget what it made and keep it for others; end it if it is in the middle of a call."""
        if self.is_running and not self._owes_an_answer and len(_IDLE) < MOST_IDLE:
            with suppress(Lost, OutOfMemory):
                self._exchange(NOTHING_MADE, FORGETTING_SECONDS, FORGETTING_SECONDS)
                assert self._child is not None
                assert self._connection is not None
                _IDLE.append((self._child, self._connection))
                self._child = self._connection = None
        self._end()

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._child = self._connection = None

    @property
    def is_running(self) -> bool:
        """Whether there is a child, with the object that it made."""
        return self._child is not None

    def call(self, function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
        """Return ``function(*arguments)`` of a function or class that can be imported by its name.

        The instance of a class stays in the child, for ``ask``; then nothing is returned.

        Raises:
            Lost: it took more than ``seconds`` of processor time, or the child died.
            Exception: what the function raised.
        """
        return self._exchange((function.__module__, function.__qualname__, arguments), seconds)

    def ask(self, method: str, *arguments: Any, seconds: float, clock_seconds: float | None = None) -> Any:
        """Return what ``method`` of the object made last returns; a name alone gives an attribute. Raises as ``call``.

        The method's name ends in ``()``, an attribute's does not. ``clock_seconds`` bounds the time in all.
        """
        return self._exchange((None, method, arguments), seconds, clock_seconds)

    def _exchange(self, request: tuple[Any, ...], seconds: float, clock_seconds: float | None = None) -> Any:
        connection = self._connection or self._start()
        clock_seconds = clock_seconds or max(seconds * CLOCK_PER_PROCESSOR_TIME, LEAST_CLOCK_SECONDS)
        self._owes_an_answer = True
        try:
            connection.send((seconds, *request))
            if not connection.poll(clock_seconds):
                raise Lost(f"more than {clock_seconds:g} s", is_too_slow=True)
            is_done, answer, self.peak_memory_bytes = _receive(connection)
            self._owes_an_answer = False
        except (EOFError, OSError):
            raise self._how_it_was_lost(seconds) from None
        except BaseException:  # interrupted: nobody waits for this answer any more
            self.close()
            raise
        if not is_done:
            raise answer
        return answer

    def _start(self) -> Connection:
        with suppress(IndexError):
            self._child, self._connection = _IDLE.pop()
            if self._child.poll() is None:
                return self._connection
            self._end()
        ours, theirs = socket.socketpair()
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _CHILD, str(theirs.fileno()), *sys.path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard output belongs to --json
            )
        self._connection = Connection(ours.detach())
        return self._connection

    def _how_it_was_lost(self, seconds: float) -> Lost:
        assert self._child is not None
        code = self._child.wait()
        self.close()
        if code == -signal.SIGXCPU:
            return Lost(f"more than {seconds:g} s of processor time", is_too_slow=True)
        if code == -signal.SIGKILL:
            return Lost("its process was killed, as the kernel does when memory runs out")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        bound = memory_bound().rstrip(". ")
        return Lost(f"its process died ({how}{f'; {bound}' if bound else ''})")


def seconds_for(path: Path, seconds: float) -> float:
    """Return the processor time that a whole document may take: ``seconds``, and as much again for each 100 MB."""
    files = path.iterdir() if path.is_dir() else [path]
    return seconds * (1 + sum(file.stat().st_size for file in files if file.is_file()) / BYTES_A_BOUND)


@contextmanager
def document_bounds(name: str, action: str) -> Iterator[None]:
    """Raise as the document's fault what bounds a call about all of it.

    Raises:
        TooCostlyDocument: the process was lost, or memory ran out.
    """
    try:
        yield
    except (Lost, OutOfMemory) as error:
        if isinstance(error, OutOfMemory):
            reason = error.message
        else:
            reason = f"it takes {error}" if error.is_too_slow else str(error)
        raise TooCostlyDocument(
            f"{name} could not be {action}: {reason}. It is damaged, or made to do harm; get it again from its source, "
            "or have its pages drawn anew as pictures. A large document may need a higher render_timeout_seconds."
        ) from None


def isolated_call(function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    """Return ``function(*arguments)`` as computed by a process of its own; raises as ``IsolatedProcess.call``."""
    with IsolatedProcess() as process:
        return process.call(function, *arguments, seconds=seconds)


def bounded_call(path: Path, seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)`` about the document at ``path`` from a process of its own, within bounds.

    Raises:
        TooCostlyDocument: it takes too much time or memory.
    """
    with document_bounds(path.name, "opened"):
        return isolated_call(function, *arguments, seconds=seconds_for(path, seconds))


def _send(connection: Connection, *answer: Any) -> None:
    """Send an answer; large arrays go as they lie, without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(answer, protocol=5, buffer_callback=buffers.append)
    raw = [buffer.raw() for buffer in buffers]
    connection.send((content, [part.nbytes for part in raw]))
    for part in raw:
        connection.send_bytes(part)


def _receive(connection: Connection) -> Any:
    content, sizes = connection.recv()
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        connection.recv_bytes_into(buffer)
    return pickle.loads(content, buffers=buffers)


def serve(descriptor: int) -> None:
    """Answer calls from the socket until it closes, then end this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller is interrupted too and closes the socket
    _be_the_first_to_go()
    connection = Connection(descriptor)
    made: Any = None
    with suppress(EOFError, OSError):
        while True:
            seconds, module, name, arguments = connection.recv()
            _end_with_caller(descriptor, True)
            try:
                found = getattr(made, name.removesuffix("()")) if module is None else _imported(module, name)
                _allow(seconds)
                answer = found(*arguments) if module or name.endswith("()") else found
                if isinstance(found, type):
                    made, answer = answer, None
                is_done = True
            except Exception as error:
                is_done, answer = False, _portable(error)
            _allow(math.inf)
            _end_with_caller(descriptor, False)
            _send(connection, is_done, answer, process_peak_bytes())
            del answer
            give_back_free_memory()
    os._exit(0)


def _imported(module: str, name: str) -> Any:
    """Return what is called; importing it costs no time of the call's."""
    return getattr(import_module(module), name)


def _portable(error: Exception) -> Exception:
    """Return ``error`` as one that can be sent, and memory that ran out as what it is."""
    if is_out_of_memory(error) and not isinstance(error, TomeflowError):
        return OutOfMemory(f"it needs more memory than a single file may have ({error or type(error).__name__})")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _allow(seconds: float) -> None:
    """Have the kernel end this process when it has computed for ``seconds`` from now."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = resource.RLIM_INFINITY if seconds == math.inf else math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (_lower(soft, hard), hard))


def _lower(value: int, hard: int) -> int:
    if hard == resource.RLIM_INFINITY:
        return value
    return hard if value == resource.RLIM_INFINITY else min(value, hard)


def _end_with_caller(descriptor: int, is_wanted: bool) -> None:
    """Have the kernel end this process when the caller's end of the socket closes, though it is deep in C.

    Nothing but that close can come while a call is at work: the caller waits for its answer.
    """
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    if is_wanted:
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC if is_wanted else flags & ~os.O_ASYNC)


def _be_the_first_to_go() -> None:
    """Bound the memory of this process, and have the kernel end it before others when the machine's runs out."""
    bound = max(LEAST_MEMORY_BYTES, int(MEMORY_RATIO * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):  # macOS takes no such bound
        resource.setrlimit(resource.RLIMIT_AS, (_lower(bound, soft), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):  # Linux alone
        Path("/proc/self/oom_score_adj").write_text("1000")
