"""``tomeflow status``: what became of each document, whether somebody is at it, and what to do next.

Reads the warehouse for a moment; while a run is writing it, the export of the run before.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from data_contracts.errors import ConfigError, ContractViolated
from data_contracts.result import GateStatus
from data_contracts.warehouse.connection import read_warehouse
from flows.commands.query import as_table
from flows.settings import Settings, read_settings
from tasks import storage
from tasks.plan import spell_pages
from tasks.publishing.publish import is_published, read_manifest
from tasks.validate import quarantine_folder

if TYPE_CHECKING:
    import duckdb

NOTHING = "nothing"
READ_TIMEOUT_S = 5.0
"""A writer holds the warehouse for moments; whoever waits longer reads the export."""

_LATEST = """
SELECT d.document_id, d.uri, d.document_sha256, r.config_sha256, r.run_id, r.started_at, r.seconds, r.selected_pages,
    r.model_fingerprint
FROM documents d JOIN runs r USING (document_sha256)
QUALIFY row_number() OVER (PARTITION BY d.document_sha256 ORDER BY r.started_at DESC) = 1
ORDER BY d.document_id
"""
_PAGES = """
SELECT p.status, m.gate_status, coalesce(p.stale_context, false) AS stale, list(p.page_number ORDER BY p.page_number)
FROM pages p LEFT JOIN page_measures m USING (document_sha256, page_number, config_sha256)
WHERE p.document_sha256 = ? AND p.config_sha256 = ? AND p.run_id = ? GROUP BY ALL
"""


class DocumentStatus(BaseModel):
    """What is known of one document; of one that never finished a run only that somebody began.

    The warehouse holds one reading of each content, under the name that was read last: a document that was published
    under another name before has no run there, and what is known of it is what its manifest says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    document_id: str
    source: str | None = None
    is_running: bool
    is_published: bool
    in_quarantine: bool
    selected_pages: int = 0
    statuses: dict[str, int] = Field({}, description="pages by reading status")
    gate_statuses: dict[str, int] = Field({}, description="pages by gate status; empty without a gate")
    quarantined_pages: tuple[int, ...] = Field((), description="their numbers")
    stale_pages: int = Field(0, description="read in a context that a backfill has changed since")
    config_sha256: str | None = None
    model_fingerprint: str | None = None
    last_run: str | None = None
    last_run_at: datetime | None = None
    last_run_seconds: float | None = None
    next: str = ""


def read_statuses(output: str, document_id: str | None = None) -> list[DocumentStatus]:
    """Return the status of every document below ``output``, or of one.

    Raises:
        ConfigError: there is no such document; the message lists those there are.
        StorageUnavailable: neither the warehouse nor its export can be read.
    """
    settings = read_settings(output)
    statuses = {name: _begun(settings, name) for name in _names_of_locks(settings.work_folder)}
    with read_warehouse(settings.work_folder, READ_TIMEOUT_S) as connection:
        if connection is not None:
            for row in _rows(connection, _LATEST):
                is_asked = document_id in (None, row["document_id"])
                status = _finished(settings, connection, row) if is_asked else _begun(settings, row["document_id"])
                statuses[row["document_id"]] = status
    if document_id is not None and document_id not in statuses:
        known = ", ".join(sorted(statuses)) or "none"
        raise ConfigError(f"there is no document {document_id!r} in {output}; there are: {known}.")
    wanted = sorted(statuses) if document_id is None else [document_id]
    return [
        status.model_copy(update={"next": what_next(status, output)}) for status in map(statuses.get, wanted) if status
    ]


def count_failed_objects(output: str) -> int:
    """Return how many objects of archives could not be published when an ingestion last saw them."""
    with read_warehouse(read_settings(output).work_folder, READ_TIMEOUT_S) as connection:
        if connection is None:
            return 0
        ((count,),) = connection.execute("SELECT count(*) FROM archive_objects WHERE status = 'failed'").fetchall()
        return int(count)


def what_next(status: DocumentStatus, output: str) -> str:
    """Return what a person does next about a document, as a command where there is one."""
    unread = status.statuses.get("failed", 0) + status.statuses.get("truncated", 0)
    name = f"--document {status.document_id} -o {output}"
    if status.is_running:
        return "wait: a run is at it"
    if status.last_run is None and (unread or not status.is_published):
        return f"run it again, it goes on where it stopped: tomeflow run {status.source or 'SOURCE'} -o {output}"
    if unread:
        return f"read {unread} pages again: tomeflow backfill {name}"
    if status.quarantined_pages:
        pages = spell_pages(status.quarantined_pages)
        release = f"tomeflow release {status.document_id} --pages {pages} --why REASON -o {output}"
        return f"look at pages {pages}, then tomeflow backfill {name}, or {release}"
    if not status.is_published:
        return f"publish it: tomeflow run {status.source} -o {output}"
    if status.stale_pages:
        return f"if their context matters: tomeflow backfill {name} --status stale"
    return NOTHING


def _begun(settings: Settings, name: str) -> DocumentStatus:
    published_folder = storage.join(settings.output, name)
    is_there = is_published(published_folder)
    return DocumentStatus(
        document_id=name,
        is_running=_is_held(settings.work_folder / "locks" / f"{name}.lock"),
        is_published=is_there,
        in_quarantine=is_published(str(quarantine_folder(settings.work_folder, name))),
        **(_as_published(published_folder) if is_there else {}),
    )


def _as_published(published_folder: str) -> dict[str, Any]:
    """Return what a manifest says: all there is of a document whose content was read again under another name."""
    try:
        manifest = read_manifest(published_folder)
    except (FileNotFoundError, ContractViolated):  # just being replaced
        return {}
    return {
        "source": manifest["run"]["source"],
        "selected_pages": len(manifest["selected_pages"]),
        "statuses": {status: count for status, count in manifest["status_counts"].items() if count},
        "last_run_at": manifest["run"]["started_at"],
    }


def _finished(settings: Settings, connection: duckdb.DuckDBPyConnection, run: dict[str, Any]) -> DocumentStatus:
    statuses: dict[str, int] = {}
    gate: dict[str, int] = {}
    stale_pages = 0
    quarantined: list[int] = []
    of_run = [run["document_sha256"], run["config_sha256"], run["run_id"]]
    for status, gate_status, stale, numbers in connection.execute(_PAGES, of_run).fetchall():
        statuses[status] = statuses.get(status, 0) + len(numbers)
        if gate_status:
            gate[gate_status] = gate.get(gate_status, 0) + len(numbers)
        quarantined += numbers if gate_status == GateStatus.QUARANTINED else []
        stale_pages += len(numbers) if stale else 0
    known = {
        "source": run["uri"],
        "selected_pages": run["selected_pages"],
        "statuses": statuses,
        "gate_statuses": gate,
        "quarantined_pages": tuple(sorted(quarantined)),
        "stale_pages": stale_pages,
        "config_sha256": run["config_sha256"],
        "model_fingerprint": run["model_fingerprint"],
        "last_run": run["run_id"],
        "last_run_at": run["started_at"],
        "last_run_seconds": run["seconds"],
    }
    return _begun(settings, run["document_id"]).model_copy(update=known)


def _rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    result = connection.execute(sql)
    columns = [column[0] for column in result.description or []]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def _names_of_locks(work: Path) -> list[str]:
    """Return the documents that any run has ever begun in this output; an ingestion's own lock is none."""
    return [path.stem for path in (work / "locks").glob("*-????????????.lock")]


def _is_held(lock: Path) -> bool:
    """Return whether a living process holds ``lock``."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow status`` with parsed ``options`` (``output``, ``document``, ``json``); return the exit code."""
    statuses = read_statuses(options.output, options.document)
    if options.json:
        print(json.dumps({"documents": [status.model_dump(mode="json") for status in statuses]}, ensure_ascii=False))
    elif options.document:
        print(as_lines(statuses[0]))
    elif statuses:
        print(as_table(["document", "pages", "readings", "gate", "last run", "now"], list(map(_row, statuses))))
        print("\n".join(f"{status.document_id}: {status.next}" for status in statuses if status.next != NOTHING))
    else:
        print(f"no document in {options.output} yet", file=sys.stderr)
    if not options.json and not options.document and (failed := count_failed_objects(options.output)):
        asked = "SELECT prefix, name, reason FROM archive_objects WHERE status = 'failed'"
        print(f'{failed} objects of archives failed when last ingested: tomeflow query "{asked}" -o {options.output}')
    return 0


def as_lines(status: DocumentStatus) -> str:
    """Return what is known of one document for people, a line each."""
    facts = {
        "document": status.document_id,
        "now": _place(status),
        "source": status.source,
        "pages": f"{status.selected_pages} ({_shown(status.statuses)})" if status.selected_pages else None,
        "gate": _shown(status.gate_statuses),
        "stale": f"{status.stale_pages} pages" if status.stale_pages else None,
        "last run": f"{_minute(status)}, {status.last_run_seconds:.0f} s, {status.last_run}"
        if status.last_run
        else None,
        "model": status.model_fingerprint,
        "configuration": status.config_sha256,
        "next": status.next,
    }
    return "\n".join(f"{name:<13}  {value}" for name, value in facts.items() if value)


def _row(status: DocumentStatus) -> tuple[Any, ...]:
    counts = (_shown(status.statuses), _shown(status.gate_statuses))
    return (status.document_id, status.selected_pages, *counts, _minute(status), _place(status))


def _minute(status: DocumentStatus) -> str | None:
    return f"{status.last_run_at:%Y-%m-%d %H:%M}" if status.last_run_at else None


def _place(status: DocumentStatus) -> str:
    if status.is_running:
        return "running"
    return "published" if status.is_published else "in quarantine" if status.in_quarantine else "not published"


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
