"""Write what was read into the warehouse: the only writer of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_contracts.config import ReadingConfig
from data_contracts.document import DocumentRef
from data_contracts.result import ChunkResult, PageTimings
from data_contracts.warehouse.connection import (
    EXPORT_FOLDER,
    WAREHOUSE_FILE,
    export_warehouse,
    open_warehouse,
    upsert,
)
from data_contracts.warehouse.rows import chunk_row, document_row, event_rows, page_rows
from tasks.document_run import RunRecord

if TYPE_CHECKING:
    import duckdb

PAGES_AT_ONCE = 2048
"""Pages whose rows wait for one statement: a statement costs more than its rows."""


def collect_document(
    warehouse: Path,
    document: DocumentRef,
    reading: ReadingConfig,
    run: RunRecord,
    chunks: Iterable[tuple[ChunkResult, Sequence[PageTimings]]],
) -> None:
    """Upsert document, run, pages and events in one transaction; doing it twice is doing it once.

    Raises:
        StorageUnavailable: the warehouse cannot be written.
    """
    config_sha256 = reading.sha256
    with open_warehouse(warehouse) as connection:
        upsert(connection, "documents", [document_row(document)])
        run_row = {
            **run.model_dump(),
            "document_sha256": document.sha256,
            "config_sha256": config_sha256,
            "config": reading.model_dump_json(),
        }
        upsert(connection, "runs", [run_row])
        rows = _Rows(connection, [document.sha256, config_sha256])
        for chunk_number, (chunk, measured) in enumerate(chunks, start=1):
            timings = {timing.page_number: timing for timing in measured}
            rows.chunks.append(chunk_row(document, config_sha256, run.run_id, chunk_number, chunk, measured))
            rows.pages += page_rows(document, config_sha256, run.run_id, chunk.pages, timings)
            rows.events += event_rows(document, config_sha256, chunk.pages)
            if len(rows.pages) >= PAGES_AT_ONCE:
                rows.write()
        rows.write()


class _Rows:
    """Rows of one document on their way into the warehouse. Invariant: at most a bounded number waits."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, key: list[str]) -> None:
        """``key`` is the document's and the configuration's digest; chunks of an earlier run go, if cut otherwise."""
        self._connection, self._key = connection, key
        self.chunks: list[dict[str, Any]] = []
        self.pages: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        connection.execute("DELETE FROM chunks WHERE document_sha256 = ? AND config_sha256 = ?", key)

    def write(self) -> None:
        """Upsert what waits; the events of its pages replace those that were there."""
        self._connection.execute(
            "DELETE FROM events WHERE document_sha256 = ? AND config_sha256 = ? AND list_contains(?, page_number)",
            [*self._key, [page["page_number"] for page in self.pages]],
        )
        upsert(self._connection, "chunks", self.chunks)
        upsert(self._connection, "pages", self.pages)
        upsert(self._connection, "events", self.events)
        self.chunks, self.pages, self.events = [], [], []


def collect_text_layers(
    warehouse: Path, document: DocumentRef, reading: ReadingConfig, text_layers: Mapping[str, Sequence[int]]
) -> None:
    """Write into the rows of the document's pages what became of their text; ``text_layers`` is the manifest's.

    Raises:
        StorageUnavailable: the warehouse cannot be written.
    """
    with open_warehouse(warehouse) as connection:
        for text_layer, page_numbers in text_layers.items():
            connection.execute(
                "UPDATE pages SET text_layer = ? "
                "WHERE document_sha256 = ? AND config_sha256 = ? AND list_contains(?, page_number)",
                [text_layer, document.sha256, reading.sha256, list(page_numbers)],
            )


def collect_accuracy(
    work: Path,
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Upsert rows of ``page_accuracy`` into the warehouse below ``work`` and export it anew.

    Raises:
        StorageUnavailable: the warehouse cannot be written.
    """
    with open_warehouse(work / WAREHOUSE_FILE) as connection:
        upsert(connection, "page_accuracy", rows)
    export_warehouse(work / WAREHOUSE_FILE, work / EXPORT_FOLDER)
