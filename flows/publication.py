"""What comes after reading: one document's readings are collected, judged, published, checked and shown.

Everybody here reads them from local disk, in three sweeps: rows and facts, files, and, where people look on, the table
of pages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from typing import Any

from data_contracts.errors import ContractViolated, OutOfMemory
from data_contracts.ledger import balance
from data_contracts.quality.verdict import Verdict
from data_contracts.result import ChunkResult, DocumentReport, PageStatus, PageTimings
from flows.execution.artifacts import is_watched, show_result
from flows.execution.limits import WAREHOUSE_WRITER, slot
from flows.execution.step_process import shared_process
from flows.report.document import write_report
from models.process_memory import process_peak_bytes
from tasks import collect, plan, storage, validate
from tasks.document_run import DocumentRun
from tasks.isolation import Lost, isolated_call, seconds_for
from tasks.patches import PatchStore
from tasks.publishing import publish
from tasks.publishing.publication import Publication
from tasks.readings import Readings
from tasks.sources.scan_digest import scan_digests

logger = logging.getLogger("tomeflow.digitize")


def publish_run(
    run: DocumentRun, readings: Readings, patches: PatchStore, timings: Sequence[Sequence[PageTimings]]
) -> DocumentReport:
    """Publish the ``readings``, patched already, and return the report; ``timings`` are those of each chunk.

    Raises:
        LedgerUnbalanced: the pages that came out are not the selected ones; nothing is published.
        ContractViolated: the gate stopped the document, or what was published is damaged.
        StorageUnavailable: an output could not be written.
    """
    counts = balance(run.selected, readings.statuses)
    evidence = validate.Evidence(run.config.quality) if run.config.quality.gate else None
    stale_pages = _collect(run, _in_passing(readings, evidence), patches, timings)
    verdict = None
    if evidence:
        verdict = validate.validate_document(
            run, evidence, chain.from_iterable(timings), _picture_digests(run, readings.statuses)
        )
    folder, text_layers = _publish(run, readings, verdict, patches.manifest_fields(stale_pages))
    with slot(WAREHOUSE_WRITER):
        collect.collect_text_layers(run.warehouse, run.document, run.config.reading, text_layers)
    verdict = _check_and_report(run, folder, verdict)
    report = _summarize(run, folder, counts, verdict)
    show_result(run.document, report, readings.pages(), verdict)
    if verdict:
        validate.require_publishable(run.work, verdict)
    return report


def _in_passing(readings: Readings, evidence: validate.Evidence | None) -> Iterator[ChunkResult]:
    """Yield the chunks, having shown their pages to the gate."""
    for chunk in readings.chunks():
        if evidence:
            for page in chunk.pages:
                evidence.add(page)
        yield chunk


def _collect(
    run: DocumentRun,
    chunks: Iterator[ChunkResult],
    patches: PatchStore,
    timings: Sequence[Sequence[PageTimings]],
) -> list[int]:
    """Write the rows of all pages to the warehouse; return the pages whose context a patch has changed."""
    stale_pages: list[int] = []

    def rows() -> Iterator[tuple[ChunkResult, Sequence[PageTimings]]]:
        for chunk, measured in zip(map(patches.mark_stale, chunks), timings, strict=True):
            stale_pages.extend(page.page_number for page in chunk.pages if page.stale_context)
            yield chunk, measured

    with slot(WAREHOUSE_WRITER):
        collect.collect_document(run.warehouse, run.document, run.config.reading, run.record, rows())
    return stale_pages


def _picture_digests(run: DocumentRun, statuses: Sequence[tuple[int, PageStatus]]) -> dict[int, str]:
    """Return the digests of the pages that were read; a page that failed is not looked at again."""
    read = [number for number, status in statuses if status is not PageStatus.FAILED]
    seconds = seconds_for(run.source, run.config.render_timeout_seconds)
    try:
        digests: dict[int, str] = isolated_call(scan_digests, run.source, run.document.kind, read, seconds=seconds)
    except (Lost, OutOfMemory) as error:
        logger.warning("%s: nobody looked for pages with the very same picture: %s", run.document.document_id, error)
        return {}
    return digests


def _publish(
    run: DocumentRun, readings: Readings, verdict: Verdict | None, patched: Mapping[str, Any]
) -> tuple[str, dict[str, list[int]]]:
    """Publish; return the folder, and the pages by what became of their text.

    What differs from run to run stands in the manifest's ``run`` alone.
    """
    config = run.config
    fields = {
        "config": config.reading.model_dump(mode="json"),
        "config_sha256": config.reading.sha256,
        "model_fingerprint": run.record.model_fingerprint,
        "versions": installed_versions(),
        **({"gate": validate.verdict_fields(verdict)} if verdict else {}),
        **patched,
    }
    run_fields = {
        "source": run.document.uri,
        "chunk_pages": config.chunk_pages,
        "parameters": config.model_dump(mode="json"),
        **run.record.model_dump(mode="json"),
    }
    root = validate.publish_root(run.output, run.work, verdict) if verdict else run.output
    folder = storage.join(root, run.document.document_id)
    publication = Publication(run.document, run.source, readings.pages, config.render_timeout_seconds, run.selected)
    manifest = publish.publish_document(publication, folder, config.formats, fields, run_fields)
    _warn_of_old_text(run.document.document_id, manifest)
    return folder, manifest.get("text_layers", {})


def _warn_of_old_text(document_id: str, manifest: Mapping[str, Any]) -> None:
    """Say where the text that the PDF came with was not what was read."""
    told = {
        "had a text layer that is not what was read; it was replaced": manifest.get("text_layers", {}).get("replaced"),
        "had a text layer that lacked words; it was completed": manifest.get("text_layers", {}).get("completed"),
        "have text that is not what was read and could not be taken out; what was read was added to it": manifest.get(
            "pages_with_rubbish_text"
        ),
    }
    for what, pages in told.items():
        if pages:
            logger.warning("%s: pages %s %s.", document_id, plan.spell_pages(pages), what)


def installed_versions() -> dict[str, str]:
    """Return the versions of what takes part in a reading."""
    return {name: version(name) for name in ("tomeflow", "torch", "onnxruntime", "rapidocr", "pymupdf")}


def _check_and_report(run: DocumentRun, folder: str, verdict: Verdict | None) -> Verdict | None:
    """Read back what was written and put the report beside it; return the verdict with what came of it."""
    if verdict:
        digests = publish.published_digests(publish.read_manifest(folder))
        verdict = validate.validate_published(run.work, verdict, folder, digests)
    local_folder = storage.local_path(folder)
    if local_folder and "jsonl" in run.config.formats and (verdict or is_watched()):
        write_report(local_folder)
    return verdict


def _summarize(run: DocumentRun, folder: str, counts: dict[str, int], verdict: Verdict | None) -> DocumentReport:
    pages, seconds = sum(counts.values()), run.record.seconds
    return DocumentReport(
        id=run.document.document_id,
        output=folder,
        pages=pages,
        status_counts=counts,
        seconds=round(seconds, 3),
        pages_per_second=round(pages / seconds, 3),
        peak_memory_bytes=process_peak_bytes() + shared_process().peak_memory_bytes,
        published=verdict is None or verdict.is_publishable,
        error=f"pages in quarantine: {verdict.summary}" if verdict and verdict.quarantined else None,
        exit_code=ContractViolated.exit_code if verdict and verdict.quarantined else 0,
    )
