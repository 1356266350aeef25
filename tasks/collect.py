"""Write what was read into the warehouse: the only writer of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from data_contracts.config import ReadingConfig
from data_contracts.document import DocumentRef
from data_contracts.result import ChunkResult, PageTimings
from data_contracts.warehouse import document_row, event_rows, open_warehouse, page_rows, upsert


class RunRecord(BaseModel):
    """One run over one document: what it used and what it cost on this machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    model_fingerprint: str
    started_at: datetime
    seconds: float
    selected_pages: int
    peak_memory_bytes: int


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
        for chunk, measured in chunks:
            timings = {timing.page_number: timing for timing in measured}
            upsert(connection, "pages", list(page_rows(document, config_sha256, run.run_id, chunk.pages, timings)))
            numbers = [page.page_number for page in chunk.pages]
            connection.execute(
                "DELETE FROM events WHERE document_sha256 = ? AND config_sha256 = ? AND list_contains(?, page_number)",
                [document.sha256, config_sha256, numbers],
            )
            upsert(connection, "events", list(event_rows(document, config_sha256, chunk.pages)))
