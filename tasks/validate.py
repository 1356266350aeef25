"""The gate before publishing: what must hold of a reading is judged, and what fails is quarantined with its reasons.

A page with a critical failure is quarantined; a document with too many of them, or with a failure of its own, does not
go to the output folder: its outputs go to the quarantine folder beside its verdict, and a person may release it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_contracts.config import QualityConfig
from data_contracts.errors import ConfigError, ContractViolated
from data_contracts.formats.manifest import WORK_FOLDER
from data_contracts.quality.page_facts import FactsInPassing, PageFacts, gather_document_facts
from data_contracts.quality.suites import evaluate_document, evaluate_pages, evaluate_published
from data_contracts.quality.verdict import Evaluation, QuarantinedPage, Release, Verdict
from data_contracts.records import parse_record
from data_contracts.result import GateStatus, PageResult, PageTimings
from data_contracts.warehouse.connection import EXPORT_FOLDER, WAREHOUSE_FILE, export_warehouse, open_warehouse
from data_contracts.warehouse.quality import (
    add_evaluations,
    add_releases,
    low_confidence_rows,
    read_page_cer,
    read_releases,
    replace_quality,
)
from tasks import storage
from tasks.document_run import DocumentRun

QUARANTINE_FOLDER = "quarantine"
VERDICTS_FOLDER = "verdicts"
VERDICT_FILE = "verdict.json"


class Evidence:
    """What the gate judges of a reading, gathered while its pages pass by; holds facts and doubtful lines, no page."""

    def __init__(self, quality: QualityConfig) -> None:
        """Begin without a page."""
        self._facts = FactsInPassing()
        self._below = quality.low_line_confidence
        self.low_lines: list[dict[str, Any]] = []

    def add(self, page: PageResult) -> None:
        """Take the next page in."""
        self._facts.add(page)
        self.low_lines.extend(low_confidence_rows(page, self._below))

    def facts(self, digests: Mapping[int, str], cer: Mapping[int, float]) -> list[PageFacts]:
        """Return the facts of all pages, given the digests of their pictures and their error rates, where known."""
        facts = self._facts.facts(digests)
        return [fact.model_copy(update={"cer": cer.get(fact.page_number)}) for fact in facts]


def validate_document(
    run: DocumentRun, evidence: Evidence, timings: Iterable[PageTimings], digests: Mapping[int, str] | None = None
) -> Verdict:
    """Judge the readings of a document and write the verdict to the warehouse and the verdicts folder.

    ``evidence`` is of all its pages; ``digests`` are those of the pages' pictures. Pages that a person released keep
    their reasons and count as published. A quarantine of an earlier run is emptied when the document passes.

    Raises:
        StorageUnavailable: the warehouse or the verdict cannot be written.
    """
    document, quality = run.document, run.config.quality
    with open_warehouse(run.warehouse) as connection:
        known = read_page_cer(connection, document.sha256, run.record.run_id)
    facts = evidence.facts(digests or {}, known)
    timed = {timing.page_number: timing for timing in timings}
    evaluations = (
        *evaluate_document(gather_document_facts(run.selected, facts, timed), quality),
        *evaluate_pages(facts, quality),
    )
    with open_warehouse(run.warehouse) as connection:
        releases = read_releases(connection, document.sha256, run.config.reading.sha256)
        verdict = _verdict(run, evaluations, releases)
        replace_quality(connection, verdict, facts, evidence.low_lines)
    write_verdict(run.work, verdict)
    if verdict.is_publishable:
        shutil.rmtree(quarantine_folder(run.work, document.document_id), ignore_errors=True)
    return verdict


def _verdict(run: DocumentRun, evaluations: tuple[Evaluation, ...], releases: Sequence[Release]) -> Verdict:
    quality = run.config.quality
    return Verdict(
        document_id=run.document.document_id,
        document_sha256=run.document.sha256,
        config_sha256=run.config.reading.sha256,
        run_id=run.record.run_id,
        quality_version=quality.version,
        max_quarantined_ratio=quality.max_quarantined_ratio,
        min_stopping_pages=quality.min_stopping_pages,
        selected_pages=len(run.selected),
        failing_pages=_failing_pages(evaluations),
        evaluations=evaluations,
        releases=tuple(releases),
    )


def validate_published(work: Path, verdict: Verdict, folder: str, sha256_of: Mapping[str, str]) -> Verdict:
    """Read every file back that was written into ``folder``; return the verdict with what came of it.

    Raises:
        ContractViolated: a file is missing or not what was written; the message names all of them.
        StorageUnavailable: the warehouse or the verdict cannot be written.
    """
    damaged = storage.damaged_files(folder, sha256_of)
    evaluations = evaluate_published(damaged)
    verdict = verdict.model_copy(update={"evaluations": (*verdict.evaluations, *evaluations)})
    with open_warehouse(work / WAREHOUSE_FILE) as connection:
        add_evaluations(connection, verdict, evaluations)
    write_verdict(work, verdict)
    if damaged:
        raise ContractViolated(
            f"{', '.join(damaged)} in {folder} are missing or not what was written: check the storage, then run again."
        )
    return verdict


def _failing_pages(evaluations: Iterable[Evaluation]) -> tuple[QuarantinedPage, ...]:
    reasons: dict[int, list[str]] = {}
    for evaluation in evaluations:
        if evaluation.severity == "critical":
            for page in evaluation.pages:
                reasons.setdefault(page.page_number, []).append(f"{evaluation.expectation}: {page.reason}")
    return tuple(QuarantinedPage(page_number=number, reasons=tuple(reasons[number])) for number in sorted(reasons))


def quarantine_folder(work: Path, document_id: str) -> Path:
    """Return where the outputs of a document that fails are kept."""
    return work / QUARANTINE_FOLDER / document_id


def work_folder_of(folder: Path) -> Path:
    """Return the work folder that belongs to a document's ``folder``, published or in quarantine."""
    return folder.parents[1] if folder.parent.name == QUARANTINE_FOLDER else folder.parent / WORK_FOLDER


def publish_root(output: str, work: Path, verdict: Verdict) -> str:
    """Return the folder below which the document's folder is to be written: the output folder or the quarantine."""
    return output if verdict.is_publishable else str(work / QUARANTINE_FOLDER)


def require_publishable(work: Path, verdict: Verdict) -> None:
    """Put the reasons beside the outputs of a document that fails, and say so.

    Raises:
        ContractViolated: the document fails; the message names every reason, and what to do.
    """
    if verdict.is_publishable:
        return
    folder = quarantine_folder(work, verdict.document_id)
    storage.write_bytes(str(folder / VERDICT_FILE), verdict.model_dump_json(indent=2).encode())
    raise ContractViolated(
        f"{verdict.summary}. Nothing was published; outputs and reasons are in {folder}. Look at the pages, then scan "
        f"them again, or overrule with: tomeflow release {verdict.document_id} --pages LIST --why REASON -o OUT"
    )


def write_verdict(work: Path, verdict: Verdict) -> None:
    """Write the verdict where the report and the release find it."""
    storage.write_bytes(str(verdict_path(work, verdict.document_id)), verdict.model_dump_json(indent=2).encode())


def verdict_path(work: Path, document_id: str) -> Path:
    """Return the place of the document's latest verdict."""
    return work / VERDICTS_FOLDER / f"{document_id}.json"


def read_verdict(work: Path, document_id: str) -> Verdict:
    """Return the latest verdict on a document.

    Raises:
        ConfigError: there is none; the message lists the documents that have one.
        ContractViolated: it is damaged.
    """
    path = verdict_path(work, document_id)
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.json"))) or "none"
        raise ConfigError(f"no verdict on a document {document_id!r} below {work}; there are verdicts on: {known}.")
    return parse_record(Verdict.model_validate_json, storage.read_bytes(str(path)), str(path))


def record_releases(work: Path, verdict: Verdict, releases: Sequence[Release]) -> Verdict:
    """Add ``releases`` to the verdict, in the warehouse, its export and the verdicts folder; return the new verdict.

    Raises:
        StorageUnavailable: the warehouse or the verdict cannot be written.
    """
    released = verdict.model_copy(update={"releases": (*verdict.releases, *releases)})
    with open_warehouse(work / WAREHOUSE_FILE) as connection:
        add_releases(connection, released, releases)
    export_warehouse(work / WAREHOUSE_FILE, work / EXPORT_FOLDER)
    write_verdict(work, released)
    return released


def verdict_fields(verdict: Verdict) -> Mapping[str, Any]:
    """Return what the manifest says of the gate: a function of the reading and of people's releases alone."""
    return {
        "quality_version": verdict.quality_version,
        "quarantined_pages": [page.page_number for page in verdict.quarantined],
        "released_pages": [n for n, status in verdict.gate_statuses().items() if status is GateStatus.RELEASED],
    }
