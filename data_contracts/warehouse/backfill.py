"""Which pages want to be read again, by query, and what came of every attempt: the backfill's side of the warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import Field

from data_contracts.errors import ConfigError
from data_contracts.records import FrozenRecord
from data_contracts.warehouse.connection import upsert

if TYPE_CHECKING:
    import duckdb

BackfillStatus = Literal["failed", "truncated", "quarantined", "stale"]
"""What a page may be sought by; stale: read in a context that a backfill has changed since."""

BACKFILL_STATUSES: tuple[BackfillStatus, ...] = get_args(BackfillStatus)
TABLE = "backfill_attempts"

_FIND = """
WITH latest AS (
    SELECT document_sha256, config_sha256, run_id FROM runs WHERE starts_with(config_sha256, ?)
    QUALIFY row_number() OVER (PARTITION BY document_sha256 ORDER BY started_at DESC) = 1
)
SELECT d.document_id, d.document_sha256, d.uri, p.config_sha256, p.page_number, c.chunk_number, p.status,
    coalesce(m.gate_status = 'quarantined', false) AS quarantined, coalesce(p.stale_context, false) AS stale
FROM pages p
JOIN latest l ON l.document_sha256 = p.document_sha256 AND l.config_sha256 = p.config_sha256 AND l.run_id = p.run_id
JOIN documents d ON d.document_sha256 = p.document_sha256
JOIN runs r ON r.run_id = p.run_id
LEFT JOIN page_measures m
    ON m.document_sha256 = p.document_sha256 AND m.page_number = p.page_number AND m.config_sha256 = p.config_sha256
LEFT JOIN chunks c ON c.document_sha256 = p.document_sha256 AND c.config_sha256 = p.config_sha256
    AND p.page_number BETWEEN c.first_page AND c.last_page
WHERE (?::VARCHAR IS NULL OR d.document_id = ?) AND (?::TIMESTAMPTZ IS NULL OR r.started_at >= ?)
    AND (?::VARCHAR IS NULL OR r.model_fingerprint = ? OR r.config ->> '$.model' = ?)
ORDER BY d.document_id, p.page_number
"""


class PageQuery(FrozenRecord):
    """What is sought; an empty field excludes nothing."""

    document_id: str | None = None
    since: datetime | None = Field(None, description="of the run that read the page")
    statuses: tuple[BackfillStatus, ...] = ()
    page_numbers: tuple[int, ...] = ()
    chunk_numbers: tuple[int, ...] = Field((), description="of the pages between two checkpoints")
    model: str | None = Field(None, description="name or fingerprint of the model that read the page")
    config_sha256: str = Field("", description="or its first digits")


class FoundPage(FrozenRecord):
    """A page of the latest run of its document that answers a query."""

    document_id: str
    document_sha256: str
    uri: str
    config_sha256: str
    page_number: int
    chunk_number: int | None
    status: str
    quarantined: bool
    stale: bool

    def has(self, status: BackfillStatus) -> bool:
        """Return whether the page is in the state that ``status`` names."""
        return {"quarantined": self.quarantined, "stale": self.stale}.get(status, self.status == status)


class BackfillAttempt(FrozenRecord):
    """One attempt at one page; ``status`` is ``reading`` until it has ended, and stays so if the process is killed."""

    run_id: str
    document_sha256: str
    config_sha256: str
    page_number: int
    reading_sha256: str = Field(description="of the configuration of this attempt")
    why: str
    replaced_status: str
    status: str
    reason: str | None = None
    attempted_at: datetime


class DocumentBackfill(FrozenRecord):
    """What a backfill did to one document."""

    document_id: str
    statuses: dict[int, str] = Field({}, description="of the pages that were read again, by page number")
    skipped: dict[int, str] = Field({}, description="pages that were not, with the reason")
    stale_pages: tuple[int, ...] = ()
    error: str | None = None
    exit_code: int = 0


class BackfillReport(FrozenRecord):
    """What one backfill did."""

    documents: tuple[DocumentBackfill, ...] = ()
    exit_code: int = 0


def find_pages(connection: duckdb.DuckDBPyConnection, query: PageQuery) -> list[FoundPage]:
    """Return the pages that answer ``query``, by document and page number.

    Raises:
        ConfigError: the warehouse knows no document of that name; the message lists those it knows.
    """
    known = [str(row[0]) for row in connection.execute("SELECT document_id FROM documents ORDER BY 1").fetchall()]
    if query.document_id is not None and query.document_id not in known:
        there_are = ", ".join(known) or "none"
        raise ConfigError(f"there is no reading of a document {query.document_id!r}; there are those of: {there_are}.")
    result = connection.execute(
        _FIND,
        [
            query.config_sha256,
            *[query.document_id] * 2,
            *[query.since] * 2,
            *[query.model] * 3,
        ],
    )
    columns = [column[0] for column in result.description or []]
    found = [FoundPage.model_validate(dict(zip(columns, row, strict=True))) for row in result.fetchall()]
    if query.page_numbers:
        found = [page for page in found if page.page_number in query.page_numbers]
    if query.chunk_numbers:
        found = [page for page in found if page.chunk_number in query.chunk_numbers]
    return [page for page in found if not query.statuses or any(page.has(status) for status in query.statuses)]


def count_attempts(
    connection: duckdb.DuckDBPyConnection, document_sha256: str, config_sha256: str, reading_sha256: str
) -> dict[int, int]:
    """Return how often each page of a document has been tried with one configuration."""
    rows = connection.execute(
        f"SELECT page_number, count(*) FROM {TABLE} "
        "WHERE document_sha256 = ? AND config_sha256 = ? AND reading_sha256 = ? GROUP BY ALL",
        [document_sha256, config_sha256, reading_sha256],
    ).fetchall()
    return dict(rows)


def record_attempts(connection: duckdb.DuckDBPyConnection, attempts: Sequence[BackfillAttempt]) -> None:
    """Write ``attempts`` in place of what was known of them."""
    upsert(connection, TABLE, [attempt.model_dump() for attempt in attempts])
