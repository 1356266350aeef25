"""From sources to published documents, side by side: fetch, plan, encode, decode, collect, publish.

Encoding runs ahead in threads, a bounded number of chunks; decoding is one chunk after another, since each
starts from the state of the one before. Every finished chunk is a checkpoint: run again after whatever
happened, and what is finished is not done again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar

from prefect import flow
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from data_contracts.config import DigitizeConfig
from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef
from data_contracts.errors import ContractViolated, OutOfMemory, PageFailed, TomeflowError, page_context
from data_contracts.ledger import check_ledger
from data_contracts.out_of_memory import is_out_of_memory, memory_bound
from data_contracts.quality.verdict import Verdict
from data_contracts.result import ChunkCheckpoint, ChunkResult, DocumentReport, PageResult, PageStatus, PageTimings
from data_contracts.warehouse.connection import EXPORT_FOLDER, WAREHOUSE_FILE, export_warehouse
from flows.execution.artifacts import collection_run_name, is_watched, run_name, show_result, shown_in_the_ui
from flows.execution.chunks import ChunkSteps
from flows.execution.limits import WAREHOUSE_WRITER, gpu_slot, slot
from flows.execution.outcome import ended
from flows.execution.parameters import RunConfig
from flows.execution.plain_errors import log_known_errors_plainly
from flows.execution.runners import ENCODE_AHEAD_CHUNKS, Runner, encoding_on
from flows.execution.single_flight import one_run_at_a_time
from flows.execution.step_process import shared_process
from flows.report.document import write_report
from flows.settings import read_settings
from models.process_memory import process_peak_bytes
from tasks import collect, plan, storage, validate
from tasks.isolation import Lost, isolated_call, seconds_for
from tasks.patches import PatchStore
from tasks.publishing import publish
from tasks.publishing.publication import Publication
from tasks.sources import fetch as ingest
from tasks.sources.scan_digest import scan_digests
from tasks.sources.stamp import require_unchanged

logger = logging.getLogger("tomeflow.digitize")
log_known_errors_plainly()

ENCODE_WORKERS = 2
# One document leaves cores idle while it is fetched and published; each further one needs memory for its window.
DOCUMENTS_AT_ONCE = 2
DEFAULT_CONFIG = DigitizeConfig()
UNEXPECTED_EXIT_CODE = 1
Taken = TypeVar("Taken")
Result = TypeVar("Result")


@flow(name="digitize-collection", flow_run_name=collection_run_name, validate_parameters=True)
def digitize_collection(
    sources: Annotated[list[str], Field(min_length=1)],
    output: str = "out",
    config: RunConfig = DEFAULT_CONFIG,
    fresh: bool = False,
    runner: Runner = "threads",
    documents_at_once: Annotated[int, Field(ge=1)] = DOCUMENTS_AT_ONCE,
) -> list[DocumentReport]:
    """Digitize all ``sources``; one that fails is reported and never stops another. Return a report each, in order.

    Args:
        sources: paths or URIs of documents.
        output: folder or URI that holds published documents; checkpoints lie inside.
        config: what is read, how, and what is written.
        fresh: ignore checkpoints of earlier runs.
        runner: where pages are encoded; dask and ray: on a cluster, see deployments/README.md.
        documents_at_once: documents side by side; they share one process, and so one copy of the model.
    """
    reports = side_by_side(
        lambda source: digitize_or_say_why_not(source, output, config, fresh, runner), sources, documents_at_once
    )
    failed = [f"{report.id}: {report.error}" for report in reports if not report.published]
    wanting = [f"{report.id}: {report.error}" for report in reports if report.published and report.error]
    return ended(reports, f"{len(reports) - len(failed)} published", failed=failed, wanting=wanting)


def side_by_side(
    take: Callable[[Taken], Result], items: Sequence[Taken], at_once: int = DOCUMENTS_AT_ONCE
) -> list[Result]:
    """Return what ``take`` makes of each item, in order; ``at_once`` of them are in work, each a run of its own."""
    with ThreadPoolExecutor(at_once, thread_name_prefix="document") as pool:
        jobs = [pool.submit(copy_context().run, take, item) for item in items]  # the context says below which run
        try:
            return [job.result() for job in jobs]
        except BaseException:  # interrupted: what is in work ends at once, what is finished is kept
            pool.shutdown(wait=False, cancel_futures=True)
            shared_process().close()
            raise


def digitize_or_say_why_not(
    source: str, output: str, config: DigitizeConfig, fresh: bool, runner: Runner
) -> DocumentReport:
    """Return the report of a document; of one that fails, a report with the reason and the exit code."""
    try:
        report: DocumentReport = digitize_document(source, output, config, fresh, runner)
    except TomeflowError as error:
        return failed_report(source, str(error), error.exit_code)
    except Exception as error:
        if is_out_of_memory(error):
            said = f"memory ran out ({type(error).__name__}: {error}). {memory_bound()}"
            return failed_report(source, f"{said}Run again with more, or --at-once 1.", OutOfMemory.exit_code)
        # the others go on; the cause is shown whole for a report to the developers
        logging.getLogger("tomeflow").exception("%s", source)
        return failed_report(source, f"{type(error).__name__}: {error}", UNEXPECTED_EXIT_CODE)
    if report.status_counts["failed"]:
        unread = f"{report.status_counts['failed']} pages have no reading; see {report.output}/pages.jsonl"
        return report.model_copy(update={"error": unread, "exit_code": PageFailed.exit_code})
    return report


def failed_report(source: str, error: str, exit_code: int) -> DocumentReport:
    """Return the report of a document of which nothing is published."""
    return DocumentReport(
        id=source,
        output="",
        pages=0,
        status_counts={},
        seconds=0,
        pages_per_second=0,
        peak_memory_bytes=0,
        published=False,
        error=error,
        exit_code=exit_code,
    )


@flow(
    name="digitize-document",
    flow_run_name=run_name,
    task_runner=ThreadPoolTaskRunner(max_workers=ENCODE_WORKERS),  # type: ignore[arg-type]  # its own future type
    validate_parameters=True,
)
def digitize_document(
    source: Annotated[str, Field(min_length=1)],
    output: str = "out",
    config: RunConfig = DEFAULT_CONFIG,
    fresh: bool = False,
    runner: Runner = "threads",
) -> DocumentReport:
    """Digitize ``source`` (a PDF, an image, or a folder of page images) into ``output``/<document id>/.

    Args:
        source: path or URI of the document.
        output: folder or URI that holds published documents; checkpoints lie inside.
        config: what is read, how, and what is written.
        fresh: ignore checkpoints of earlier runs.
        runner: where pages are encoded; dask and ray: on a cluster, see deployments/README.md.

    Raises:
        UnreadableDocument: the source is encrypted, empty or not a document.
        LedgerUnbalanced: the pages that came out are not the selected ones; nothing is published.
        StorageUnavailable: a checkpoint or an output could not be written.
    """
    started_at, started = datetime.now(UTC), time.monotonic()
    settings = read_settings(output)
    work = settings.work_folder
    with _fetched(source, work, config) as (document, local_path), _only_run_of(document, work):
        selected = plan.parse_pages(config.pages, document.page_count)
        about = {"document_id": document.document_id, "page_total": len(selected)}
        logger.info("%s: %d pages", document.document_id, len(selected), extra=about)
        for warning in document.condition.warnings():
            logger.warning("%s: %s", document.document_id, warning, extra={"event": "source_condition", **about})
        _warn_of_pages_that_go(storage.join(output, document.document_id), selected)
        steps = ChunkSteps(document, local_path, config, settings.checkpoints, fresh=fresh)
        with shown_in_the_ui(document, len(selected)), gpu_slot(config.reading), encoding_on(runner):
            planned = plan.plan_chunks(selected, config.chunk_pages)
            checkpoints = decode_in_order(steps, planned, ENCODE_AHEAD_CHUNKS[runner])
        patches = PatchStore(settings.checkpoints, document, config.reading, fresh=fresh)
        chunks = _stored_chunks(steps, checkpoints, patches)
        require_unchanged(document, local_path)
        counts = check_ledger(selected, (page for chunk in chunks() for page in chunk.pages))
        seconds = time.monotonic() - started
        run = collect.RunRecord(
            run_id=str(flow_run.id),
            model_fingerprint=steps.fingerprint,
            started_at=started_at,
            seconds=seconds,
            selected_pages=len(selected),
            peak_memory_bytes=process_peak_bytes() + shared_process().peak_memory_bytes,
        )
        timings = [checkpoint.timings for checkpoint in checkpoints]
        rows = zip(map(patches.mark_stale, chunks()), timings, strict=True)
        with slot(WAREHOUSE_WRITER):
            collect.collect_document(work / WAREHOUSE_FILE, document, config.reading, run, rows)
        judged = (document, local_path, config, run, selected, work, chunks, timings)
        verdict = _validate(*judged) if config.quality.gate else None
        root = validate.publish_root(output, work, verdict) if verdict else output
        folder, text_layers = _publish(document, local_path, root, config, run, verdict, chunks, patches)
        with slot(WAREHOUSE_WRITER):
            collect.collect_text_layers(work / WAREHOUSE_FILE, document, config.reading, text_layers)
        verdict = _check_and_report(folder, config, work, verdict)
        report = _summarize(document, folder, counts, seconds, verdict)
        show_result(document, report, (page for chunk in chunks() for page in chunk.pages), verdict)
        if verdict:
            validate.require_publishable(work, verdict)
    return report


def _fetched(source: str, work: Path, config: DigitizeConfig) -> AbstractContextManager[tuple[DocumentRef, Path]]:
    return ingest.fetched(source, work / "spool", config.render_timeout_seconds)


@contextmanager
def _only_run_of(document: DocumentRef, work: Path) -> Iterator[None]:
    """Have no other run at the document meanwhile, and errors name it."""
    with page_context(document=document.document_id), one_run_at_a_time(work / "locks", document.document_id):
        yield


def _warn_of_pages_that_go(published_folder: str, selected: Sequence[int]) -> None:
    """Say before the work what a publication of other pages will replace: it holds the selected pages and no others."""
    if gone := sorted(publish.published_page_numbers(published_folder) - set(selected)):
        logger.warning(
            "%s holds pages %s too; this run replaces it without them. To keep them, select them as well (--pages).",
            published_folder,
            plan.spell_pages(gone),
        )


def _summarize(
    document: DocumentRef, folder: str, counts: dict[str, int], seconds: float, verdict: Verdict | None
) -> DocumentReport:
    pages = sum(counts.values())
    return DocumentReport(
        id=document.document_id,
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


def decode_in_order(
    steps: ChunkSteps, chunks: Sequence[ChunkRef], encode_ahead: int = ENCODE_AHEAD_CHUNKS["threads"]
) -> list[ChunkCheckpoint]:
    """Encode ``encode_ahead`` chunks ahead and decode one after another; return every checkpoint."""
    lookahead_chunks = -(-steps.reading.sr_swa.lookahead_pages // min(len(c.page_numbers) for c in chunks))
    ahead = max(encode_ahead, lookahead_chunks)
    encoding: list[Callable[[], FeaturesRef]] = []
    checkpoints: list[ChunkCheckpoint] = []
    for index in range(len(chunks)):
        while len(encoding) < min(len(chunks), index + 1 + ahead):
            encoding.append(steps.start_encoding(chunks[len(encoding)]))
        needed = encoding[index : index + 1 + lookahead_chunks]
        checkpoints.append(steps.decode(chunks[index], [encoded() for encoded in needed], checkpoints))
        numbers = chunks[index].page_numbers
        about = {"document_id": steps.document.document_id, "page_numbers": numbers}
        logger.info("%s: pages %d-%d done", steps.document.document_id, numbers[0], numbers[-1], extra=about)
    return checkpoints


def _stored_chunks(
    steps: ChunkSteps, checkpoints: Sequence[ChunkCheckpoint], patches: PatchStore
) -> Callable[[], Iterator[ChunkResult]]:
    """Return a reader of the chunks' results, patched, that holds one chunk at a time, however long the document."""
    return lambda: (patches.apply(steps.stored_result(checkpoint)) for checkpoint in checkpoints)


def _validate(
    document: DocumentRef,
    local_path: Path,
    config: DigitizeConfig,
    run: collect.RunRecord,
    selected: Sequence[int],
    work: Path,
    chunks: Callable[[], Iterable[ChunkResult]],
    timings: Sequence[Sequence[PageTimings]],
) -> Verdict:
    return validate.validate_document(
        work,
        document,
        config.reading,
        config.quality,
        run.run_id,
        selected,
        lambda: (page for chunk in chunks() for page in chunk.pages),
        chain.from_iterable(timings),
        _digests(document, local_path, config, chunks),
    )


def _digests(
    document: DocumentRef, local_path: Path, config: DigitizeConfig, chunks: Callable[[], Iterable[ChunkResult]]
) -> dict[int, str]:
    """Return the digests of the pages that were read; a page that failed is not looked at again."""
    read = [page.page_number for chunk in chunks() for page in chunk.pages if page.status is not PageStatus.FAILED]
    seconds = seconds_for(local_path, config.render_timeout_seconds)
    try:
        digests: dict[int, str] = isolated_call(scan_digests, local_path, document.kind, read, seconds=seconds)
    except (Lost, OutOfMemory) as error:
        logger.warning("%s: nobody looked for pages with the very same picture: %s", document.document_id, error)
        return {}
    return digests


def _check_and_report(folder: str, config: DigitizeConfig, work: Path, verdict: Verdict | None) -> Verdict | None:
    """Read back what was written and put the report beside it; return the verdict with what came of it."""
    if verdict:
        digests = publish.published_digests(publish.read_manifest(folder))
        verdict = validate.validate_published(work, verdict, folder, digests)
    else:
        export_warehouse(work / WAREHOUSE_FILE, work / EXPORT_FOLDER)  # the gate does so each time it judges
    local_folder = storage.local_path(folder)
    if local_folder and "jsonl" in config.formats and (verdict or is_watched()):
        write_report(local_folder)
    return verdict


def _publish(
    document: DocumentRef,
    local_path: Path,
    output: str,
    config: DigitizeConfig,
    run: collect.RunRecord,
    verdict: Verdict | None,
    chunks: Callable[[], Iterable[ChunkResult]],
    patches: PatchStore,
) -> tuple[str, dict[str, list[int]]]:
    """Publish; return the folder, and the pages by what became of their text.

    What differs from run to run stands in the manifest's ``run`` alone.
    """

    def pages() -> Iterator[PageResult]:
        return (page for chunk in chunks() for page in chunk.pages)

    fields = {
        "config": config.reading.model_dump(mode="json"),
        "config_sha256": config.reading.sha256,
        "model_fingerprint": run.model_fingerprint,
        "versions": installed_versions(),
        **({"gate": validate.verdict_fields(verdict)} if verdict else {}),
        **patches.manifest_fields(chunks()),
    }
    run_fields = {
        "source": document.uri,
        "chunk_pages": config.chunk_pages,
        "parameters": config.model_dump(mode="json"),
        **run.model_dump(mode="json"),
    }
    folder = storage.join(output, document.document_id)
    publication = Publication(document, local_path, pages, config.render_timeout_seconds)
    manifest = publish.publish_document(publication, folder, config.formats, fields, run_fields)
    _warn_of_old_text(document, manifest)
    return folder, manifest.get("text_layers", {})


def _warn_of_old_text(document: DocumentRef, manifest: Mapping[str, Any]) -> None:
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
            logger.warning("%s: pages %s %s.", document.document_id, plan.spell_pages(pages), what)


def installed_versions() -> dict[str, str]:
    """Return the versions of what takes part in a reading."""
    return {name: version(name) for name in ("tomeflow", "torch", "onnxruntime", "rapidocr", "pymupdf")}
