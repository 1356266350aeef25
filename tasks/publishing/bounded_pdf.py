"""``SearchablePdfWriter`` in a process of its own: a file that hangs or crashes MuPDF costs its document, no other."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from data_contracts.formats.writer import PageWriter
from data_contracts.result import PageResult
from tasks.isolation import IsolatedProcess, document_bounds, seconds_for
from tasks.publishing.publication import Publication
from tasks.publishing.searchable_pdf import BATCH_PAGES, SearchablePdfWriter
from tasks.sources.pdf.mupdf import mupdf

LOGGER = logging.getLogger("tomeflow.publish")


class BoundedPdfWriter(PageWriter):
    """Writes ``document.pdf`` as ``SearchablePdfWriter`` does; a context manager, at whose end the process ends."""

    def __init__(self, target: Path, publication: Publication, selected: Sequence[int]) -> None:
        """Start nothing yet."""
        document, source, seconds = publication.document, publication.source, publication.seconds
        self._document_id, self._target_name, self._name = document.document_id, target.name, source.name
        self._seconds = seconds * BATCH_PAGES + seconds_for(source, seconds)
        self._process = IsolatedProcess()
        self._begun_with = (source, document.kind, selected, target, document.sha256)

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

    def add(self, page: PageResult) -> None:
        """Append the text of the next selected page; of an image source, the page itself too.

        Raises:
            TooCostlyDocument: that takes too much time or memory.
        """
        self._bounded("ask", "add()", page)

    def finish(self) -> None:
        """Write what is left; raises as ``add``."""
        self._bounded("ask", "finish()")

    def manifest_fields(self) -> dict[str, Any]:
        """Return what became of the text of each page; what of the source is left out, this says in a warning too."""
        fields: dict[str, Any] = self._bounded("ask", "manifest_fields()")
        if left_out := fields.get("left_out_of_pdf"):
            LOGGER.warning("%s: %s comes without %s.", self._document_id, self._target_name, "; ".join(left_out))
        return fields

    def _bounded(self, verb: Literal["call", "ask"], *arguments: Any) -> Any:
        with document_bounds(self._name, "copied"):
            return getattr(self._process, verb)(*arguments, seconds=self._seconds)


def count_pages_of_pdf(path: Path) -> int:
    """Return how many pages the written PDF at ``path`` has."""
    with mupdf() as pymupdf, pymupdf.open(path, filetype="pdf") as pdf:
        return int(pdf.page_count)
