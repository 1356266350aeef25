"""The steps of a chunk in the process that holds the model (``python -m flows.execution.steps DESCRIPTOR``).

Answers one caller over a socket, each job in a thread of its own, and says with every page that it is alive.
Ends when the socket does, whatever a step is in the middle of: nobody is left to answer to.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from data_contracts.config import ReadingConfig, RenderConfig
from data_contracts.document import FeaturesRef
from data_contracts.errors import DecodeFailed, TomeflowError
from data_contracts.result import ChunkCheckpoint
from data_contracts.step_request import (
    DecodeRequest,
    EncodeAgainRequest,
    EncodeRequest,
    FingerprintRequest,
    StepRequest,
)
from flows.execution.rendering import BoundedPages
from models.process_memory import give_back_free_memory, process_peak_bytes
from models.sr_swa.pages import PageImage
from models.sr_swa.protocol import OcrModel
from models.zoo import load_model
from tasks import decode, encode
from tasks.loading import LoadingAhead

_LOADING = threading.Lock()


def shared_model(reading: ReadingConfig) -> OcrModel:
    """Return the model, loaded once however many jobs ask at the same time."""
    with _LOADING:
        return load_model(reading)


class Job:
    """One step being run. ``begin_page`` is its sign of life."""

    def __init__(self, number: int, send: Callable[[tuple[Any, ...]], None]) -> None:
        """Report to ``send``."""
        self.number = number
        self.page_number: int | None = None
        self.renderer_peak_bytes = 0
        self._send = send

    def begin_page(self, page_number: int) -> None:
        """Say that ``page_number`` is in work now; what the page before it needed is given back."""
        give_back_free_memory()
        self.page_number = page_number
        self._send((self.number, "page", page_number))


class _RenderedPages:
    """The pages of a scan, each rendered as is asked for; a context manager."""

    def __init__(self, job: Job, request: EncodeAgainRequest) -> None:
        self._job = job
        self._request = request
        self._sources: dict[RenderConfig, BoundedPages] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def render(self, page_number: int) -> PageImage:
        """Return the page, having said that it is in work now."""
        self._job.begin_page(page_number)
        pages = self._source(page_number)
        image = pages.render(page_number)
        self._job.renderer_peak_bytes = max(self._job.renderer_peak_bytes, pages.peak_memory_bytes)
        return image

    def look_closer(self, seen: PageImage) -> PageImage | None:
        """Return the page of ``seen`` finer, as ``BoundedPages`` does."""
        return self._source(seen.page_number).look_closer(seen)

    def _source(self, page_number: int) -> BoundedPages:
        config = self._request.renders.get(page_number, self._request.reading.render)
        if config not in self._sources:
            self._sources[config] = self._open.enter_context(_bounded(self._request, config))
        return self._sources[config]


def _bounded(request: EncodeRequest, config: RenderConfig) -> BoundedPages:
    scan = request.scan
    return BoundedPages(Path(scan.path), scan.kind, config, scan.render_seconds)


def fingerprint_step(job: Job, request: FingerprintRequest) -> str:
    """Return what tells this model from others."""
    del job
    return shared_model(request.reading).fingerprint


def encode_step(job: Job, request: EncodeRequest) -> FeaturesRef:
    """Render and encode the pages of a chunk.

    A page that takes more than its seconds of processor time to render has failed.
    """
    model = shared_model(request.reading)
    coming = [n for n in request.chunk.page_numbers if request.load_ahead and n not in request.isolated]
    with _bounded(request, request.reading.render) as pages, LoadingAhead(pages.render, coming) as loading:

        def render(page_number: int) -> PageImage:
            job.begin_page(page_number)
            image = loading.take(page_number)
            job.renderer_peak_bytes = pages.peak_memory_bytes
            return image

        return encode.encode_chunk(request, render, model, pages.look_closer)


def encode_again_step(job: Job, request: EncodeAgainRequest) -> FeaturesRef:
    """Render and encode single pages, each as it is asked for; bounded as ``encode_step``."""
    model = shared_model(request.reading)
    with _RenderedPages(job, request) as pages:
        return encode.encode_chunk_again(request, pages.render, model, pages.look_closer)


def decode_step(job: Job, request: DecodeRequest) -> ChunkCheckpoint:
    """Decode the pages of a chunk."""
    return decode.decode_chunk(request, shared_model(request.reading), job.begin_page)


STEPS: dict[type[StepRequest], Callable[..., Any]] = {
    FingerprintRequest: fingerprint_step,
    EncodeRequest: encode_step,
    EncodeAgainRequest: encode_again_step,
    DecodeRequest: decode_step,
}

_CURRENT: ContextVar[Job] = ContextVar("job")


class _LogToCaller(QueueHandler):
    """Hands what a job logs to its caller, who knows whose document it is."""

    def __init__(self) -> None:
        super().__init__(queue=None)  # type: ignore[arg-type]  # enqueue is ours

    def enqueue(self, record: logging.LogRecord) -> None:
        job = _CURRENT.get(None)
        if job is not None:
            job._send((job.number, "log", record))


def serve(descriptor: int) -> None:
    """Answer jobs from the socket until it closes, then end this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller is interrupted too and closes the socket
    logger = logging.getLogger("tomeflow")
    logger.addHandler(_LogToCaller())
    logger.setLevel(logging.INFO)
    logger.propagate = False
    connection = Connection(descriptor)
    sending = threading.Lock()

    def send(message: tuple[Any, ...]) -> None:
        with sending:
            connection.send(message)

    with _end_with_socket():
        while True:
            number, request = connection.recv()
            threading.Thread(target=_run, args=(Job(number, send), send, request), daemon=True).start()


@contextmanager
def _end_with_socket() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError):
        os._exit(0)


def _run(job: Job, send: Callable[[tuple[Any, ...]], None], request: StepRequest) -> None:
    _CURRENT.set(job)
    with _end_with_socket():
        send((job.number, "begun"))
        try:
            answer = STEPS[type(request)](job, request)
        except Exception as error:
            send((job.number, "failed", _portable(error, job)))
        else:
            send((job.number, "done", answer, process_peak_bytes() + job.renderer_peak_bytes))


def _portable(error: Exception, job: Job) -> Exception:
    """Return ``error`` as one that the caller knows; a fault met on a page is that page's failure."""
    if isinstance(error, TomeflowError):
        return error
    if job.page_number is None:
        return RuntimeError("".join(traceback.format_exception(error)))
    logging.getLogger("tomeflow.steps").error("page %d", job.page_number, exc_info=error)
    failure = DecodeFailed(f"{type(error).__name__}: {error}")
    failure.page_number = job.page_number
    return failure


if __name__ == "__main__":
    from flows.execution.steps import serve as serve_as_imported  # not __main__'s: one module, one set of steps
    from flows.settings import set_library_defaults

    set_library_defaults()  # on a cluster its parent is a worker that never heard of them
    serve_as_imported(int(sys.argv[1]))
