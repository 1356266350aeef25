"""A document that went through collect, the gate and publish, without having been read: for what comes after them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from support.readings import text_page
from support.sources import SCAN_DPI, SCAN_SIZE_PX, scanned_pdf

from data_contracts.config import DigitizeConfig
from data_contracts.document import StateRef
from data_contracts.errors import ContractViolated
from data_contracts.quality.verdict import Verdict
from data_contracts.result import ChunkResult, PageResult, PageTimings
from data_contracts.warehouse.connection import EXPORT_FOLDER, export_warehouse
from tasks.collect import collect_document
from tasks.document_run import DocumentRun, RunRecord
from tasks.publishing.publication import Publication
from tasks.publishing.publish import publish_document
from tasks.sources.fetch import fetch_document
from tasks.validate import Evidence, publish_root, require_publishable, validate_document, verdict_fields


def prose_page(number: int, extra: Sequence[str] = ()) -> PageResult:
    """Return a page of words that no other page has, under its own printed number."""
    lines = [" ".join(f"word{number * 1009 + row * 31 + column}x" for column in range(3)) for row in range(12)]
    return text_page([str(number), *lines, *extra], number, SCAN_SIZE_PX, SCAN_DPI)


def judge_document(
    output: Path, pages: Sequence[PageResult], name: str = "book", source: Path | None = None
) -> tuple[Verdict, Path]:
    """Collect, validate, publish and export ``pages``; return the verdict and the folder that the outputs are in.

    ``source`` is what they are said to be a reading of; without it, drawn scans.
    """
    work, config = output / ".tomeflow", DigitizeConfig()
    if source is None:
        source = scanned_pdf(output.parent / f"{name}.pdf", pages=len(pages))
    document = fetch_document(str(source), work / "spool")[0].model_copy(update={"document_id": f"{name}-000000000000"})
    record = RunRecord(
        run_id=f"run-{name}",
        model_fingerprint="fake",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1,
        selected_pages=len(pages),
        peak_memory_bytes=1,
    )
    timings = [PageTimings(page_number=p.page_number, decode_ms=300, peak_memory_bytes=10**9) for p in pages]
    state = StateRef(uri="states/x", sha256="1" * 64, size_bytes=1, next_page_number=len(pages) + 1)
    chunk = ChunkResult(pages=tuple(pages), state=state)
    selected = tuple(page.page_number for page in pages)
    run = DocumentRun(document, source, config, selected, str(output), work, record)
    collect_document(run.warehouse, document, config.reading, record, [(chunk, timings)])
    evidence = Evidence(config.quality)
    for page in pages:
        evidence.add(page)
    verdict = validate_document(run, evidence, timings)
    export_warehouse(run.warehouse, work / EXPORT_FOLDER)
    fields = {
        "config": config.reading.model_dump(mode="json"),
        "config_sha256": config.reading.sha256,
        "model_fingerprint": "fake",
        "versions": {"tomeflow": "0"},
        "gate": verdict_fields(verdict),
    }
    folder = Path(publish_root(str(output), work, verdict)) / document.document_id
    publish_document(
        Publication(document, source, lambda: iter(pages)),
        folder,
        ("txt", "pdf", "jsonl"),
        fields,
        {"source": document.uri, **record.model_dump(mode="json")},
    )
    if not verdict.is_publishable:
        try:
            require_publishable(work, verdict)
        except ContractViolated:
            return verdict, folder
        raise AssertionError("a document that fails was let through")
    return verdict, folder
