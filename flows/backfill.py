"""Pages that have no good reading are found by query and read again, and only they.

Each is read in the memory it would have had: from the nearest kept state before it, replaying. The new readings are
kept as patches beside the checkpoints; the document is then published as always, its checkpoints with the patches in
place, so that every format is patched and all other pages stay as they are, byte for byte.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from data_contracts.config import changed_reading, check_changes
from data_contracts.errors import ContractViolated, PageFailed, TomeflowError, joint_exit_code
from data_contracts.result import DocumentReport, PageStatus
from data_contracts.warehouse.backfill import (
    BACKFILL_STATUSES,
    BackfillAttempt,
    BackfillReport,
    BackfillStatus,
    DocumentBackfill,
    FoundPage,
    PageQuery,
    count_attempts,
    find_pages,
    record_attempts,
)
from data_contracts.warehouse.connection import WAREHOUSE_FILE, open_warehouse
from flows.digitize import digitize_document
from flows.execution.artifacts import one_line
from flows.execution.exports import exported_at_the_end
from flows.execution.outcome import ended
from flows.execution.plain_errors import log_known_errors_plainly
from flows.execution.single_flight import one_run_at_a_time
from flows.published import check_nothing_else_changed, published_parameters
from flows.rereading import Rereading
from flows.settings import Settings, read_settings
from models.zoo import require_reader
from tasks import plan
from tasks.readings import Readings
from tasks.sources import fetch as ingest

logger = logging.getLogger("tomeflow.backfill")
log_known_errors_plainly()

MAX_ATTEMPTS = 3
"""At a page with one configuration: equal input gives equal text, so only a passing cause makes another worth it."""

LAST_PAGE = 100_000


def _run_name() -> str:
    parameters = flow_run.parameters
    pages = f", pages {parameters['pages']}" if parameters.get("pages") else ""
    return one_line(f"backfill {parameters.get('document') or 'all documents'}{pages}")


@flow(name="backfill", flow_run_name=_run_name, validate_parameters=True)
def backfill(
    output: str = "out",
    document: str | None = None,
    since: datetime | None = None,
    statuses: tuple[BackfillStatus, ...] | None = None,
    pages: str | None = None,
    chunks: str | None = None,
    model: str | None = None,
    config_sha256: str = "",
    overrides: dict[str, Any] | None = None,
    cascade: bool = False,
    why: str = "",
) -> BackfillReport:
    """Read again the pages that answer the query; a document that fails never stops another.

    Args:
        output: folder of published documents.
        document: id of one document; empty: all.
        since: only pages that were read by runs from then on.
        statuses: of the pages; empty: failed, truncated and quarantined ones; of named pages or chunks: any.
        pages: such as 79,83; empty: all.
        chunks: such as 5: all pages between two checkpoints, as the table chunks of the warehouse numbers them.
        model: only pages that this model (name or fingerprint) has read.
        config_sha256: only pages that were read with this configuration (first digits suffice).
        overrides: what is to be otherwise in the reading configuration of these pages, such as {"render.dpi": 400}.
        cascade: read again all later pages too, since what is before them has changed.
        why: kept with every attempt.

    Raises:
        ConfigError: a parameter is wrong.
        StorageUnavailable: the warehouse cannot be opened.
    """
    check_changes(overrides or {})
    require_reader((overrides or {}).get("model", "compact"))
    settings = read_settings(output)
    query = PageQuery(
        document_id=document or None,
        since=since,
        statuses=statuses or (() if pages or chunks else BACKFILL_STATUSES[:3]),
        page_numbers=plan.parse_pages(pages, LAST_PAGE) if pages else (),
        chunk_numbers=plan.parse_pages(chunks, LAST_PAGE) if chunks else (),
        model=model,
        config_sha256=config_sha256,
    )
    with exported_at_the_end(settings.work_folder):
        with open_warehouse(settings.work_folder / WAREHOUSE_FILE) as connection:
            found = find_pages(connection, query)
        groups = [list(group) for _, group in groupby(found, key=lambda page: page.document_id)]
        done = [_backfill_document(settings, group, overrides or {}, cascade=cascade, why=why) for group in groups]
    return _ended(done)


def _ended(done: Sequence[DocumentBackfill]) -> BackfillReport:
    """Return the report on all documents, or the state of Prefect that says what is wanting."""
    faults = [
        (report.exit_code, f"{report.document_id}: {report.error or 'not all pages were tried'}") for report in done
    ]
    quarantined = [fault for code, fault in faults if code == ContractViolated.exit_code]
    failed = [fault for code, fault in faults if code not in (0, ContractViolated.exit_code)]
    backfilled = BackfillReport(documents=tuple(done), exit_code=joint_exit_code(report.exit_code for report in done))
    return ended(backfilled, f"{len(done)} documents", failed=failed, wanting=quarantined)


def _backfill_document(
    settings: Settings, found: Sequence[FoundPage], overrides: Mapping[str, Any], *, cascade: bool, why: str
) -> DocumentBackfill:
    document_id = found[0].document_id
    try:
        return _Backfill(settings, found, overrides, cascade=cascade, why=why).run()
    except TomeflowError as error:
        return DocumentBackfill(document_id=document_id, error=str(error), exit_code=error.exit_code)
    except Exception as error:  # whatever a library throws at one document costs that document only
        logger.exception("%s", document_id)
        return DocumentBackfill(
            document_id=document_id, error=f"{type(error).__name__}: {error}", exit_code=TomeflowError.exit_code
        )


class _Backfill:
    """The backfill of one document under the configuration it is published with."""

    def __init__(
        self, settings: Settings, found: Sequence[FoundPage], overrides: Mapping[str, Any], *, cascade: bool, why: str
    ) -> None:
        self._settings = settings
        self._first = found[0]
        self._found = {page.page_number: page for page in found}
        self._cascade = cascade
        self._why = why
        self._folder, self._config = published_parameters(settings, self._first.document_id, self._first.config_sha256)
        self._reading = changed_reading(self._config.reading, overrides)
        self._run_id = str(flow_run.id)

    def run(self) -> DocumentBackfill:
        """Read the pages that may still be tried, and publish."""
        named, skipped = self._due()
        if not named:
            return DocumentBackfill(
                document_id=self._first.document_id, skipped=skipped, exit_code=PageFailed.exit_code
            )
        work = self._settings.work_folder
        seconds = self._config.render_timeout_seconds
        with ingest.fetched(self._first.uri, work / "spool", seconds) as (document, source):
            ingest.require_same(document, self._first.document_sha256)
            with one_run_at_a_time(work / "locks", document.document_id), Readings(work) as readings:
                rereading = Rereading(document, source, self._config, self._settings.checkpoints, readings)
                check_nothing_else_changed(self._folder, rereading.pages())
                self._record(dict.fromkeys(named, "reading"), {})
                try:
                    stale = [number for number in named if self._is_only_stale(self._found[number])]
                    bad = [number for number in named if number not in stale]
                    statuses, reasons = rereading.run(bad, stale, self._reading, cascade=self._cascade)
                except Exception as error:
                    self._record(dict.fromkeys(named, "failed"), dict.fromkeys(named, str(error)))
                    raise
                self._record({number: statuses[number] for number in named}, reasons)
                stale_pages = rereading.stale_pages()
        report: DocumentReport = digitize_document(self._first.uri, self._settings.output, self._config)
        return self._summarize(statuses, reasons, skipped, stale_pages, report)

    def _is_only_stale(self, page: FoundPage) -> bool:
        """Return whether nothing but its context is the matter with a page, nor is to be changed."""
        is_good = page.status in (PageStatus.TEXT, PageStatus.BLANK) and not page.quarantined
        return page.stale and is_good and self._reading == self._config.reading

    def _due(self) -> tuple[list[int], dict[int, str]]:
        """Return the pages to be tried, and why the others are not."""
        first = self._first
        with open_warehouse(self._settings.work_folder / WAREHOUSE_FILE) as connection:
            tried = count_attempts(connection, first.document_sha256, first.config_sha256, self._reading.sha256)
        reason = f"tried {MAX_ATTEMPTS} times with this configuration; give another, such as --dpi 400"
        skipped = {number: reason for number in self._found if tried.get(number, 0) >= MAX_ATTEMPTS}
        return [number for number in self._found if number not in skipped], skipped

    def _record(self, statuses: Mapping[int, str], reasons: Mapping[int, str]) -> None:
        now = datetime.now(UTC)
        attempts = [
            BackfillAttempt(
                run_id=self._run_id,
                document_sha256=self._first.document_sha256,
                config_sha256=self._first.config_sha256,
                page_number=number,
                reading_sha256=self._reading.sha256,
                why=self._why,
                replaced_status="quarantined" if self._found[number].quarantined else self._found[number].status,
                status=status,
                reason=reasons.get(number),
                attempted_at=now,
            )
            for number, status in statuses.items()
        ]
        with open_warehouse(self._settings.work_folder / WAREHOUSE_FILE) as connection:
            record_attempts(connection, attempts)

    def _summarize(
        self,
        statuses: Mapping[int, str],
        reasons: Mapping[int, str],
        skipped: Mapping[int, str],
        stale_pages: Sequence[int],
        report: DocumentReport,
    ) -> DocumentBackfill:
        unread = [number for number, status in statuses.items() if status == PageStatus.FAILED]
        faults = [f"page {number}: {reasons.get(number)}" for number in unread]
        return DocumentBackfill(
            document_id=self._first.document_id,
            statuses=dict(statuses),
            skipped=dict(skipped),
            stale_pages=tuple(stale_pages),
            error="; ".join(faults) or report.error,
            exit_code=PageFailed.exit_code if unread or skipped else report.exit_code,
        )
