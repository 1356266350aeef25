"""The pages of a document, rendered by a process of its own that is ended when a page takes too long.

What hangs, crashes or fills the memory in there costs its page. The process that holds the model, and with it the other
documents, never notices.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from data_contracts.config import RenderConfig
from data_contracts.errors import OutOfMemory, RenderFailed, page_context
from models.sr_swa.pages import PageImage
from tasks.isolation import IsolatedProcess, Lost
from tasks.sources.protocol import Rendered
from tasks.sources.render import PageSource, Seen, page_image, seen_of

LEAVE_OUT = "Leave the page out with --pages, or draw it anew as a picture."


class BoundedPages:
    """``PageSource`` in a process of its own; a context manager. Threads take turns: one page is rendered at a time."""

    def __init__(self, path: Path, kind: str, config: RenderConfig, seconds: float) -> None:
        """Start nothing yet; ``seconds`` is the processor time that a page may take."""
        self._source = (path, kind, config)
        self._seconds = seconds
        self._process = IsolatedProcess()
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.close()

    @property
    def peak_memory_bytes(self) -> int:
        """Highest resident memory of the process."""
        return self._process.peak_memory_bytes

    def render(self, page_number: int) -> PageImage:
        """Return page ``page_number`` (1-based) as RGB pixels and the resolution they have.

        Raises:
            RenderFailed: the page is damaged or too large, or takes too much time or memory; the others are not
                affected.
        """
        rendered = self._pixels(page_number, None)
        assert rendered is not None, "the first look shows more than none"
        return page_image(page_number, *rendered)

    def look_closer(self, seen: PageImage) -> PageImage | None:
        """Return the page of ``seen`` finer, or None where it has no more to show; raises as ``render``."""
        rendered = self._pixels(seen.page_number, seen_of(seen))
        return None if rendered is None else page_image(seen.page_number, *rendered)

    def _pixels(self, page_number: int, seen: Seen | None) -> Rendered | None:
        with page_context(page_number=page_number), self._one_at_a_time:
            try:
                return self._pixels_once(page_number, seen)
            except Lost as error:
                if error.is_too_slow:
                    raise RenderFailed(f"could not be rendered: it takes {error}. {LEAVE_OUT}") from None
            try:
                return self._pixels_once(page_number, seen)  # another may have been to blame: a full machine
            except Lost as error:
                raise RenderFailed(f"could not be rendered: {error}. {LEAVE_OUT}") from None

    def _pixels_once(self, page_number: int, seen: Seen | None) -> Rendered | None:
        try:
            if not self._process.is_running:
                self._process.call(PageSource, *self._source, seconds=self._seconds)
            rendered: Rendered | None = self._process.ask("pixels()", page_number, seen, seconds=self._seconds)
        except OutOfMemory as error:
            raise RenderFailed(f"could not be rendered: {error.message}. {LEAVE_OUT}") from error
        return rendered
