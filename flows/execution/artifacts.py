"""What a person sees of a run in the UI: its tags, how far it is, a table of its pages, a summary with links.

Where nobody looks at the server (the private one of ``tomeflow run``) nothing is sent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, cast
from unicodedata import category
from uuid import UUID

from prefect import get_client, tags
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.runtime import flow_run
from prefect.settings import get_current_settings

from data_contracts.document import DocumentRef
from data_contracts.quality.verdict import Verdict
from data_contracts.result import DocumentReport, PageResult, PageStatus
from flows.execution.events import QUARANTINED, announce
from flows.settings import served_url

logger = logging.getLogger("tomeflow.digitize")
STEP_LOGGER = logging.getLogger("tomeflow.encode")
"""Of the steps in the process that holds the model; that process hands its records over."""

# The browser asks every few seconds; more often is for nobody.
UPDATE_EVERY_S = 2.0
# A table is sent and drawn whole; beyond this many rows only the pages that want a look are in it.
TABLE_ROWS = 500
DOUBTFUL_CONFIDENCE = 0.8

_BREAKING = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode's general categories of characters that end a line, or are none."""
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that have a name shown in another order than it is written in."""
# What ends code, and what ends a cell of a table even in code.
_NO_CODE = str.maketrans({"`": "'", "|": "\N{BROKEN BAR}"})


def run_name() -> str:
    """Return the name of the current run for people: the document's own name, and which pages."""
    parameters = flow_run.parameters
    pages = getattr(parameters.get("config"), "pages", None)
    name = PurePosixPath(str(parameters["source"]).rstrip("/")).name or str(parameters["source"])
    return one_line(f"{name}, pages {pages}" if pages else name)


def archive_run_name() -> str:
    """Return the name of a run over an archive."""
    return one_line(f"ingest {flow_run.parameters['prefix']}")


def collection_run_name() -> str:
    """Return the name of a run over several documents: the first one's, and how many more there are."""
    first, *others = flow_run.parameters["sources"]
    name = PurePosixPath(str(first).rstrip("/")).name or str(first)
    return one_line(f"{name} and {len(others)} more" if others else name)


def is_watched() -> bool:
    """Whether this run is on a server that people look at."""
    return bool(flow_run.id) and get_current_settings().logging.to_api.enabled


@contextmanager
def shown_in_the_ui(document: DocumentRef, page_total: int) -> Iterator[None]:
    """Tag the run and its tasks with the document, and show how many of ``page_total`` pages are done."""
    if not is_watched():
        yield
        return
    about = [f"document:{document.document_id}", f"book:{document.document_id.rpartition('-')[0]}"]
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(str(flow_run.id)), tags=[*flow_run.tags, *about])
    handlers = {logger: _Progress(document, page_total), STEP_LOGGER: _StepEvents(document)}
    for followed, handler in handlers.items():
        followed.setLevel(logging.INFO)
        followed.addHandler(handler)
    try:
        with tags(*about):
            yield
    finally:
        for followed, handler in handlers.items():
            followed.removeHandler(handler)


def show_result(
    document: DocumentRef, report: DocumentReport, pages: Iterable[PageResult], verdict: Verdict | None
) -> None:
    """Send the table of pages and the summary, with links to what was published."""
    if not is_watched():
        return
    reasons = {page.page_number: "; ".join(page.reasons) for page in verdict.quarantined} if verdict else {}
    rows, left_out = _rows(pages, reasons)
    what = f"{report.pages} pages of {plain(document.uri)}"
    if left_out:
        what += f"; {left_out} that read well are not listed, see pages.jsonl"
    create_table_artifact(rows, key=f"{document.document_id}-pages", description=what)
    create_markdown_artifact(
        _summary(document, report, reasons), key=f"{document.document_id}-summary", description=what
    )
    if reasons and report.published:  # what is not published fails, and is announced as a failed run
        announce(QUARANTINED, document.document_id, verdict.summary if verdict else "")


class _Progress(logging.Handler):
    """Follows the log of finished chunks; a server that does not answer never costs the run."""

    def __init__(self, document: DocumentRef, page_total: int) -> None:
        super().__init__(logging.INFO)
        self._document_id = document.document_id
        self._done, self._total = 0, page_total
        self._sent = 0.0
        what = f"{page_total} pages of {plain(document.uri)}"
        self._id = cast(UUID, create_progress_artifact(0.0, key=f"{document.document_id}-progress", description=what))

    def emit(self, record: logging.LogRecord) -> None:
        """Count the pages of this document that the record reports as done."""
        if getattr(record, "document_id", None) != self._document_id:
            return
        self._done += len(getattr(record, "page_numbers", ()))
        is_due = time.monotonic() - self._sent > UPDATE_EVERY_S or self._done == self._total
        if not hasattr(record, "page_numbers") or not is_due:
            return
        self._sent = time.monotonic()
        try:
            update_progress_artifact(self._id, round(100 * self._done / self._total, 1))
        except Exception:
            self.handleError(record)


class _StepEvents(logging.Handler):
    """Hands on to the server what a step logs as an event: rules and people can follow it there."""

    def __init__(self, document: DocumentRef) -> None:
        super().__init__(logging.INFO)
        self._document_id = document.document_id

    def emit(self, record: logging.LogRecord) -> None:
        """Announce the event of a record about this document."""
        event: str | None = getattr(record, "event", None)
        if event and getattr(record, "document_id", None) == self._document_id:
            try:
                announce(event, self._document_id, record.getMessage())
            except Exception:  # a server that does not answer never costs the page
                self.handleError(record)


def _rows(pages: Iterable[PageResult], reasons: Mapping[int, str]) -> tuple[list[dict[str, Any]], int]:
    """Return one row a page, or, of a long document, those of the pages that want a look and how many others."""
    rows, wanted = [], []
    for page in pages:
        row = _row(page, reasons.get(page.page_number))
        rows.append(row)
        if row["note"] or page.status is not PageStatus.TEXT or (page.confidence or 0) < DOUBTFUL_CONFIDENCE:
            wanted.append(row)
    shown = rows if len(rows) <= TABLE_ROWS else wanted[:TABLE_ROWS]
    return shown, len(rows) - len(shown)


def _row(page: PageResult, reasons: str | None) -> dict[str, Any]:
    note = reasons or page.error or (str(page.blank_reason) if page.blank_reason else "")
    return {
        "page": page.page_number,
        "status": "quarantined" if reasons else str(page.status),
        "lines": len(page.lines),
        "confidence": None if page.confidence is None else round(page.confidence, 3),
        "note": plain(note) if note else "",
    }


def _summary(document: DocumentRef, report: DocumentReport, reasons: Mapping[int, str]) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in report.status_counts.items() if count)
    lines = [
        f"# {plain(document.document_id)}",
        "",
        "| | |",
        "|---|---|",
        f"| source | {plain(document.uri)} |",
        f"| pages | {report.pages} ({counts}) |",
        f"| time | {report.seconds:.0f} s, {report.pages_per_second:.2f} pages/s |",
        f"| peak memory | {report.peak_memory_bytes / 1e6:.0f} MB |",
        f"| output | {plain(report.output)} |",
        "",
        *_links(report.output),
    ]
    if reasons:
        lines += ["", "## Quarantined", *(f"- page {number}: {plain(why)}" for number, why in reasons.items())]
    return "\n".join(lines)


def _links(folder: str) -> list[str]:
    """Return a list of links to the published files, where the UI's own server shows them."""
    names = sorted(path.name for path in Path(folder).glob("*") if path.is_file())
    links = [(name, served_url(Path(folder) / name)) for name in names]
    return [f"- [{plain(name)}]({url})" for name, url in links if url]


def one_line(text: str) -> str:
    """Return ``text`` on one line, in the order in which it is written: characters that change that become U+FFFD.

    For places that show a name as it is; the name of a file may hold all of them.
    """
    return "".join("\N{REPLACEMENT CHARACTER}" if category(c) in _BREAKING or c in _TURNING else c for c in text)


def plain(text: str) -> str:
    """Return ``text`` as code on one line, so that a file name is never read as markup, wherever it stands."""
    return f"`{one_line(text).translate(_NO_CODE) or ' '}`"
