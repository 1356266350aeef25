"""An archive is published: what is new or changed by content below a folder or prefix is digitized and published.

Every object that is seen is remembered in the warehouse with how it ended, before the next one begins: a killed
run goes on where it stopped, and a document that kills its process stops being tried.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Annotated

from prefect import flow
from prefect.runtime import flow_run
from pydantic import Field

from data_contracts.config import DigitizeConfig
from data_contracts.document import shown_name
from data_contracts.errors import ContractViolated, NotADocument, PageFailed, TomeflowError
from data_contracts.result import DocumentReport
from data_contracts.warehouse.archive import (
    ArchiveObject,
    ArchiveReport,
    ArchiveStatus,
    read_archive,
    record_objects,
    report_on,
)
from data_contracts.warehouse.connection import WAREHOUSE_FILE, open_warehouse
from flows.digitize import DEFAULT_CONFIG, DOCUMENTS_AT_ONCE, digitize_document, side_by_side
from flows.execution.artifacts import archive_run_name
from flows.execution.exports import exported_at_the_end
from flows.execution.outcome import archive_ended
from flows.execution.parameters import RunConfig
from flows.execution.plain_errors import log_known_errors_plainly
from flows.execution.single_flight import one_run_at_a_time
from flows.settings import read_settings
from tasks import storage
from tasks.publishing.publish import is_published
from tasks.sources import fetch as ingest
from tasks.sources import scan
from tasks.validate import quarantine_folder

logger = logging.getLogger("tomeflow.ingest")
log_known_errors_plainly()

MAX_ATTEMPTS = 3
"""At a document whose failure may pass. Whoever wants more says so (``retry_failed``)."""


@flow(name="ingest-archive", flow_run_name=archive_run_name, validate_parameters=True)
def ingest_archive(
    prefix: str,
    output: str = "out",
    config: RunConfig = DEFAULT_CONFIG,
    retry_failed: bool = False,
    documents_at_once: Annotated[int, Field(ge=1)] = DOCUMENTS_AT_ONCE,
) -> ArchiveReport:
    """Digitize what is new or changed below ``prefix``, side by side; one that fails never stops another.

    What was published or quarantined and is not there any more is rebuilt from its checkpoints. A second ingestion into
    the same ``output`` waits for the first. The run has failed if a document failed in it.

    Args:
        prefix: folder, or ``s3://`` prefix, with PDFs, images and folders of page images at any depth.
        output: folder that holds published documents.
        config: how documents are read, and what is written.
        retry_failed: try again also what failed for good or too often.
        documents_at_once: documents side by side; they share one process, and so one copy of the model.

    Raises:
        UnreadableDocument: there is nothing at ``prefix``.
        ConfigError: ``output`` lies inside ``prefix``.
        StorageUnavailable: the archive cannot be listed, or what was seen not be recorded.
    """
    work = read_settings(output).work_folder
    with one_run_at_a_time(work / "locks", "ingest-archive"), exported_at_the_end(work):
        items = scan.scan_archive(prefix, output)
        ingestion = _Ingestion(prefix.rstrip("/"), output, config, retry_failed, str(flow_run.id))
        seen = side_by_side(ingestion.take, items, documents_at_once)
    report = report_on(ingestion.prefix, seen, scan.names_gone(list(ingestion.known), items), ingestion.run_id)
    return archive_ended(report, ingestion.run_id, output)


class _Ingestion:
    """One pass over an archive. Invariant: the warehouse knows of an object what this object last returned of it."""

    def __init__(self, prefix: str, output: str, config: DigitizeConfig, retry_failed: bool, run_id: str) -> None:
        self.prefix = prefix
        self.run_id = run_id
        self._output = output
        self._config = config
        self._retry_failed = retry_failed
        self._work = read_settings(output).work_folder
        self._warehouse = self._work / WAREHOUSE_FILE
        with open_warehouse(self._warehouse) as connection:
            self.known = read_archive(connection, prefix)

    def take(self, item: scan.ArchiveItem) -> ArchiveObject:
        """Return how ``item`` ended: earlier, if it has not changed since, or now."""
        earlier = self.known.get(item.name)
        tried = 0
        if earlier is not None and earlier.version == item.version:
            if not self._is_due(earlier):
                return self._given_up(earlier) if earlier.status is ArchiveStatus.READING else earlier
            tried = earlier.attempts if earlier.status is not ArchiveStatus.PUBLISHED else 0
        started = ArchiveObject(
            prefix=self.prefix,
            name=item.name,
            uri=shown_name(item.uri),
            version=item.version,
            status=ArchiveStatus.READING,
            attempts=tried + 1,
            run_id=self.run_id,
            changed_at=datetime.now(UTC),
        )
        try:
            ended = self._read(item, earlier, started)
        except TomeflowError as error:
            place = error.document
            ended = _failed(started, str(error), error.exit_code, retryable=error.retryable, document_id=place)
        except Exception as error:  # whatever a library throws at an odd document costs that document only
            logger.exception("%s", item.uri)
            ended = _failed(started, f"{type(error).__name__}: {error}", TomeflowError.exit_code, retryable=True)
        self._record(ended)
        logger.info("%s: %s", item.name, ended.status)
        return ended

    def _is_due(self, earlier: ArchiveObject) -> bool:
        """Return whether an unchanged object is to be tried again."""
        if earlier.status is ArchiveStatus.PUBLISHED:
            return self._is_lost(earlier)
        if earlier.status is ArchiveStatus.NOT_A_DOCUMENT:
            return False
        may_end_otherwise = earlier.status is ArchiveStatus.READING or earlier.retryable or self._is_lost(earlier)
        return self._retry_failed or (may_end_otherwise and earlier.attempts < MAX_ATTEMPTS)

    def _is_lost(self, earlier: ArchiveObject) -> bool:
        """Return whether what was published or quarantined of an object is gone, or not whole."""
        name = earlier.document_id or ""
        if earlier.status is ArchiveStatus.PUBLISHED:
            return not is_published(storage.join(self._output, name))
        was_quarantined = bool(name) and earlier.exit_code == ContractViolated.exit_code
        return was_quarantined and not is_published(str(quarantine_folder(self._work, name)))

    def _given_up(self, earlier: ArchiveObject) -> ArchiveObject:
        """Return an object at which the process was killed every time, as failed."""
        reason = f"the process was killed {earlier.attempts} times while it read this; see the system's log for why"
        told_now = earlier.model_copy(update={"run_id": self.run_id})
        ended = _failed(told_now, reason, TomeflowError.exit_code, retryable=True)
        self._record(ended)
        return ended

    def _read(self, item: scan.ArchiveItem, earlier: ArchiveObject | None, started: ArchiveObject) -> ArchiveObject:
        self._record(started)
        if reason := scan.why_not_a_document(item):
            if item.claims_to_be_a_document:
                raise NotADocument(f"{item.name}: {reason}.")
            return started.model_copy(update={"status": ArchiveStatus.NOT_A_DOCUMENT, "reason": reason})
        document, _ = ingest.fetch_document(item.uri, self._work / "spool", self._config.render_timeout_seconds)
        was_published = earlier and earlier.status is ArchiveStatus.PUBLISHED and earlier.sha256 == document.sha256
        if earlier and was_published and not self._is_lost(earlier):
            return earlier.model_copy(update={"version": item.version})  # touched, not changed
        report = digitize_document(item.uri, self._output, self._config)
        reason, exit_code = _what_is_missing(report)
        return started.model_copy(
            update={
                "status": ArchiveStatus.PUBLISHED,
                "sha256": document.sha256,
                "document_id": document.document_id,
                "reason": reason,
                "exit_code": exit_code,
            }
        )

    def _record(self, seen: ArchiveObject) -> None:
        with open_warehouse(self._warehouse) as connection:
            record_objects(connection, [seen])


def _failed(
    seen: ArchiveObject, reason: str, exit_code: int, *, retryable: bool, document_id: str | None = None
) -> ArchiveObject:
    ending = {"status": ArchiveStatus.FAILED, "reason": reason, "exit_code": exit_code, "retryable": retryable}
    return seen.model_copy(update={**ending, "document_id": document_id})


def _what_is_missing(report: DocumentReport) -> tuple[str | None, int]:
    """Return what a published document lacks, and the exit code of that."""
    if report.status_counts["failed"]:
        return f"{report.status_counts['failed']} pages have no reading; try tomeflow backfill", PageFailed.exit_code
    return report.error, report.exit_code
