"""Loads the coming pages while the model works, through a bounded queue that memory can stop.

A page image is tens of megabytes and everything after it small, so this queue is where a long document would
fill memory. Pausing it changes when a page is rendered, never what is read.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from models.sr_swa.controller import MemoryWatermark
    from models.sr_swa.pages import PageImage

# The logger of the step it works for: a run's front end shows its warnings.
logger = logging.getLogger("tomeflow.encode")

QUEUE_DEPTH_PAGES = 1
"""Pages that wait, beside the one in work: rendering is faster than seeing, more would only lie in memory."""


class LoadingAhead:
    """The pages of one chunk, rendered by a thread ahead of who takes them.

    Invariant: at most ``QUEUE_DEPTH_PAGES`` wait; above the high mark of ``watermark`` none that was not asked for.
    """

    def __init__(
        self,
        render: Callable[[int], PageImage],
        page_numbers: Iterable[int],
        watermark: MemoryWatermark | None = None,
    ) -> None:
        """Load ``page_numbers`` in their order; without ``watermark`` the container's or machine's memory counts."""
        from models.sr_swa.controller import MemoryWatermark

        self._render = render
        self._coming = deque(page_numbers)
        self._watermark = watermark or MemoryWatermark.for_process()
        self._waiting: dict[int, Future[PageImage]] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="loading")
        self._is_paused = False

    def __enter__(self) -> Self:
        """Return itself; nothing is loaded before the first page is asked for."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Drop what waits; a page being rendered is waited for."""
        self._pool.shutdown(cancel_futures=True)
        self._waiting.clear()

    def take(self, page_number: int) -> PageImage:
        """Return page ``page_number``, and begin to load those after it.

        Raises:
            RenderFailed: the page is damaged or too large; the other pages are not affected.
        """
        loading = self._waiting.pop(page_number, None) or self._pool.submit(self._render, page_number)
        while self._coming and self._coming[0] <= page_number:
            self._coming.popleft()
        while self._coming and len(self._waiting) < QUEUE_DEPTH_PAGES and self._has_memory(self._coming[0]):
            following = self._coming.popleft()
            self._waiting[following] = self._pool.submit(self._render, following)
        return loading.result()

    def _has_memory(self, page_number: int) -> bool:
        used_ratio = self._watermark.read()
        was_paused, self._is_paused = self._is_paused, used_ratio > self._watermark.high
        if self._is_paused != was_paused:
            logger.warning(
                "page %d: loading ahead %s, %.0f %% of memory is in use",
                page_number,
                "pauses" if self._is_paused else "goes on",
                100 * used_ratio,
                extra={"event": "loading_paused" if self._is_paused else "loading_resumed"},
            )
        return not self._is_paused
