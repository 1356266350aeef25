"""The metrics warehouse: one DuckDB file, numbered migrations, upserts.

DuckDB lets one process hold a file: connections are short, and whoever finds it locked waits its turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_contracts.document import DocumentRef
from data_contracts.errors import StorageUnavailable
from data_contracts.result import PageResult, PageTimings

if TYPE_CHECKING:
    import duckdb

SCHEMA_FOLDER = Path(__file__).parent / "schema"
LOCK_TIMEOUT_S = 120.0
LOCK_POLL_S = 0.2


@contextmanager
def open_warehouse(path: Path, lock_timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to the migrated warehouse inside one transaction; an error rolls it back.

    Raises:
        StorageUnavailable: another process held the file for longer than ``lock_timeout_s``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = _connect(path, lock_timeout_s)
    try:
        connection.begin()
        _migrate(connection)
        yield connection
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    finally:
        connection.close()


def _connect(path: Path, lock_timeout_s: float) -> duckdb.DuckDBPyConnection:
    import duckdb

    deadline = time.monotonic() + lock_timeout_s
    while True:
        try:
            return duckdb.connect(str(path))
        except duckdb.IOException as error:
            if "lock" not in str(error).lower() or time.monotonic() > deadline:
                raise StorageUnavailable(
                    f"the warehouse {path} cannot be opened for writing ({error}). "
                    "If another run holds it, wait for that run or end it."
                ) from error
            time.sleep(LOCK_POLL_S)


def _migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Apply the numbered files of ``schema/`` that this warehouse has not seen, in order."""
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name VARCHAR NOT NULL)")
    done = {row[0] for row in connection.execute("SELECT number FROM migrations").fetchall()}
    for file in sorted(SCHEMA_FOLDER.glob("[0-9]*.sql")):
        number = int(file.name.split("_")[0])
        if number not in done:
            connection.execute(file.read_text())
            connection.execute("INSERT INTO migrations VALUES (?, ?)", [number, file.name])


def upsert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write ``rows`` whole: every column of ``table`` is named in each row, and of equal keys the last one stays."""
    if not rows:
        return
    import pyarrow as pa

    columns = [row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()]
    incoming = pa.table({column: [row[column] for row in rows] for column in columns})
    connection.register("incoming", incoming)
    names = ", ".join(columns)
    connection.execute(f"INSERT OR REPLACE INTO {table} ({names}) SELECT {names} FROM incoming")
    connection.unregister("incoming")


def document_row(document: DocumentRef) -> dict[str, Any]:
    """Return the row of ``documents``."""
    return {
        "document_sha256": document.sha256,
        "document_id": document.document_id,
        "uri": document.uri,
        "kind": document.kind,
        "page_count": document.page_count,
    }


def page_rows(
    document: DocumentRef,
    config_sha256: str,
    run_id: str,
    pages: Iterable[PageResult],
    timings: Mapping[int, PageTimings],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``pages``: the reading, its deterministic metrics, and this run's timings if known."""
    for page in pages:
        metrics = page.metrics.model_dump(exclude={"reference_tokens"})
        timing = timings.get(page.page_number)
        yield {
            "document_sha256": document.sha256,
            "config_sha256": config_sha256,
            "run_id": run_id,
            **page.model_dump(
                mode="json",
                include={
                    "page_number",
                    "status",
                    "blank_reason",
                    "error",
                    "stop_reason",
                    "degraded_by",
                    "width_px",
                    "height_px",
                    "dpi",
                    "rotation",
                },
            ),
            "lines": len(page.lines),
            "characters": len(page.text),
            "confidence": page.confidence,
            **metrics,
            "hit_ratio": page.metrics.hit_ratio,
            "decode_ms": timing.decode_ms if timing else None,
            "step_latency_p50_ms": timing.step_latency_p50_ms if timing else None,
            "step_latency_p95_ms": timing.step_latency_p95_ms if timing else None,
            "peak_memory_bytes": timing.peak_memory_bytes if timing else None,
        }


def event_rows(document: DocumentRef, config_sha256: str, pages: Iterable[PageResult]) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``events``."""
    for page in pages:
        for event_number, event in enumerate(page.events, start=1):
            yield {
                "document_sha256": document.sha256,
                "config_sha256": config_sha256,
                "page_number": page.page_number,
                "event_number": event_number,
                "kind": event.kind,
                "detail": event.detail,
            }
