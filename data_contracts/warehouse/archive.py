"""What the ingestion of an archive remembers of each object that it saw, and the rows of it in the warehouse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import Field

from data_contracts.errors import joint_exit_code
from data_contracts.records import FrozenRecord
from data_contracts.warehouse.connection import upsert

if TYPE_CHECKING:
    import duckdb

TABLE = "archive_objects"


class ArchiveStatus(StrEnum):
    """How an object ended; ``reading`` is written before and stays only where the process was killed."""

    READING = "reading"
    PUBLISHED = "published"
    FAILED = "failed"
    NOT_A_DOCUMENT = "not_a_document"


class ArchiveObject(FrozenRecord):
    """One document-to-be: a file, or a folder's page images (its name then ends in ``/``)."""

    prefix: str
    name: str = Field(description="below the prefix")
    uri: str
    version: str = Field(description="of the listing; equal versions are equal content")
    sha256: str | None = Field(None, description="of the document, once it was fetched")
    status: ArchiveStatus
    reason: str | None = None
    exit_code: int = 0
    retryable: bool = Field(False, description="whether the next attempt may end otherwise")
    attempts: int = Field(0, ge=0, description="at this content")
    document_id: str | None = None
    run_id: str
    changed_at: datetime


class ArchiveReport(FrozenRecord):
    """What one ingestion saw; ``objects`` lists all but what is unchanged and published whole."""

    prefix: str
    published: int = 0
    unchanged: int = 0
    failed: int = 0
    not_a_document: int = 0
    gone: tuple[str, ...] = Field((), description="seen earlier, not there any more; what was published stays")
    objects: tuple[ArchiveObject, ...] = ()
    exit_code: int = 0


def report_on(prefix: str, seen: Sequence[ArchiveObject], gone: Sequence[str], run_id: str) -> ArchiveReport:
    """Count the objects ``seen``: those that run ``run_id`` published, those that were published before, and the rest.

    The exit code is a function of the archive, not of which run met what: 0 when all its documents are published,
    the cause's own code if there is one cause, else that of several.
    """
    unchanged = [o for o in seen if o.status is ArchiveStatus.PUBLISHED and o.run_id != run_id]
    counts = Counter(o.status for o in seen)
    return ArchiveReport(
        prefix=prefix,
        published=counts[ArchiveStatus.PUBLISHED] - len(unchanged),
        unchanged=len(unchanged),
        failed=counts[ArchiveStatus.FAILED],
        not_a_document=counts[ArchiveStatus.NOT_A_DOCUMENT],
        gone=tuple(gone),
        objects=tuple(o for o in seen if o.reason or o.run_id == run_id),
        exit_code=joint_exit_code(o.exit_code for o in seen),
    )


def read_archive(connection: duckdb.DuckDBPyConnection, prefix: str) -> dict[str, ArchiveObject]:
    """Return all that was ever seen below ``prefix``, by name."""
    result = connection.execute(f"SELECT * FROM {TABLE} WHERE prefix = ?", [prefix])
    columns = [column[0] for column in result.description or []]
    rows = [ArchiveObject.model_validate(dict(zip(columns, row, strict=True))) for row in result.fetchall()]
    return {row.name: row for row in rows}


def record_objects(connection: duckdb.DuckDBPyConnection, objects: Sequence[ArchiveObject]) -> None:
    """Write ``objects`` in place of what was known of them."""
    upsert(connection, TABLE, [{**o.model_dump(), "status": o.status.value} for o in objects])
