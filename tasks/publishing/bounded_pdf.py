"""``SearchablePdfWriter`` in a process of its own: a file that hangs or crashes MuPDF costs its document, no other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from data_contracts.result import PageResult
from tasks.isolation import BOUND_SECONDS, IsolatedProcess, document_bounds, seconds_for
from tasks.publishing.searchable_pdf import BATCH_PAGES, SearchablePdfWriter


class BoundedPdfWriter:
    """Writes ``document.pdf`` as ``SearchablePdfWriter`` does; a context manager, at whose end the process ends."""

    def __init__(
        self,
        source: Path,
        kind: Literal["pdf", "image", "folder"],
        selected: Sequence[int],
        target: Path,
        digest: str,
        *,
        seconds: float = BOUND_SECONDS,
    ) -> None:
        """Start nothing yet; ``seconds`` is the processor time that a page may take."""
        self._name = source.name
        self._seconds = seconds * BATCH_PAGES + seconds_for(source, seconds)
        self._process = IsolatedProcess()
        self._begun_with = (source, kind, selected, target, digest)

    def __enter__(self) -> Self:
        """Begin the target.

        Raises:
            TooCostlyDocument: the source takes too much time or memory to copy.
        """
        try:
            self._bounded("call", SearchablePdfWriter, *self._begun_with)
        except BaseException:
            self._process.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.close()

    def __getattr__(self, name: str) -> Any:
        """Return what the writer knows, such as ``own_text_pages``."""
        return self._bounded("ask", name)

    def add(self, page: PageResult) -> None:
        """Append the text of the next selected page; of an image source, the page itself too.

        Raises:
            TooCostlyDocument: that takes too much time or memory.
        """
        self._bounded("ask", "add()", page)

    def finish(self) -> None:
        """Write what is left; raises as ``add``."""
        self._bounded("ask", "finish()")

    def _bounded(self, verb: Literal["call", "ask"], *arguments: Any) -> Any:
        with document_bounds(self._name, "copied"):
            return getattr(self._process, verb)(*arguments, seconds=self._seconds)
