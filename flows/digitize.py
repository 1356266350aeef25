"""From sources to published documents, side by side: fetch, plan, encode, decode, collect, publish.

Encoding runs ahead in threads, a bounded number of chunks; decoding is one chunk after another, since each
starts from the state of the one before. Every finished chunk is a checkpoint: run again after whatever
happened, and what is finished is not done again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

from prefect import flow
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from data_contracts.config import DigitizeConfig
from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef
from data_contracts.errors import OutOfMemory, PageFailed, StorageUnavailable, TomeflowError, page_context
from data_contracts.out_of_memory import is_out_of_memory, memory_bound
from data_contracts.result import ChunkCheckpoint, ChunkResult, DocumentReport
from flows.execution.artifacts import collection_run_name, run_name, shown_in_the_ui
from flows.execution.chunks import ChunkSteps
from flows.execution.exports import exported_at_the_end
from flows.execution.limits import gpu_slot
from flows.execution.outcome import ended
from flows.execution.parameters import RunConfig
from flows.execution.plain_errors import log_known_errors_plainly
from flows.execution.runners import ENCODE_AHEAD_CHUNKS, Runner, encoding_on
from flows.execution.single_flight import one_run_at_a_time
from flows.execution.step_process import shared_process
from flows.publication import publish_run
from flows.settings import read_settings
from models.process_memory import process_peak_bytes
from tasks import plan, storage
from tasks.document_run import DocumentRun, RunRecord
from tasks.patches import PatchStore
from tasks.publishing import publish
from tasks.readings import Readings
from tasks.sources import fetch as ingest
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
    reports: list[DocumentReport] = []
    try:
        with exported_at_the_end(read_settings(output).work_folder):
            reports = side_by_side(
                lambda one: digitize_or_say_why_not(one, output, config, fresh, runner), sources, documents_at_once
            )
    except StorageUnavailable as error:
        if not any(report.exit_code for report in reports):
            raise
        logger.warning("the next run exports the warehouse: %s", error)  # the reports say what came first
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
    with (
        exported_at_the_end(work),
        _fetched(source, work, config) as (document, local_path),
        _only_run_of(document, work),
        Readings(work) as readings,
    ):
        selected = plan.parse_pages(config.pages, document.page_count)
        _tell_of(document, selected, output)
        steps = ChunkSteps(document, local_path, config, settings.checkpoints, fresh=fresh)
        patches = PatchStore(settings.checkpoints, document, config.reading, fresh=fresh)
        with shown_in_the_ui(document, len(selected)), gpu_slot(config.reading), encoding_on(runner):
            planned = plan.plan_chunks(selected, config.chunk_pages)
            checkpoints = decode_in_order(
                steps, planned, lambda chunk: readings.add(patches.apply(chunk)), ENCODE_AHEAD_CHUNKS[runner]
            )
        require_unchanged(document, local_path)
        record = RunRecord(
            run_id=str(flow_run.id),
            model_fingerprint=steps.fingerprint,
            started_at=started_at,
            seconds=time.monotonic() - started,
            selected_pages=len(selected),
            peak_memory_bytes=process_peak_bytes() + shared_process().peak_memory_bytes,
        )
        run = DocumentRun(document, local_path, config, tuple(selected), output, work, record)
        return publish_run(run, readings, patches, [checkpoint.timings for checkpoint in checkpoints])


def _fetched(source: str, work: Path, config: DigitizeConfig) -> AbstractContextManager[tuple[DocumentRef, Path]]:
    return ingest.fetched(source, work / "spool", config.render_timeout_seconds)


@contextmanager
def _only_run_of(document: DocumentRef, work: Path) -> Iterator[None]:
    """Have no other run at the document meanwhile, and errors name it."""
    with page_context(document=document.document_id), one_run_at_a_time(work / "locks", document.document_id):
        yield


def _tell_of(document: DocumentRef, selected: Sequence[int], output: str) -> None:
    """Say how many pages will be read, what is odd about the source, and which pages a new publication replaces."""
    about = {"document_id": document.document_id, "page_total": len(selected)}
    logger.info("%s: %d pages", document.document_id, len(selected), extra=about)
    for warning in document.condition.warnings():
        logger.warning("%s: %s", document.document_id, warning, extra={"event": "source_condition", **about})
    _warn_of_pages_that_go(storage.join(output, document.document_id), selected)


def _warn_of_pages_that_go(published_folder: str, selected: Sequence[int]) -> None:
    """Say before the work what a publication of other pages will replace: it holds the selected pages and no others."""
    if gone := sorted(publish.published_page_numbers(published_folder) - set(selected)):
        logger.warning(
            "%s holds pages %s too; this run replaces it without them. To keep them, select them as well (--pages).",
            published_folder,
            plan.spell_pages(gone),
        )


def decode_in_order(
    steps: ChunkSteps,
    chunks: Sequence[ChunkRef],
    take: Callable[[ChunkResult], None],
    encode_ahead: int = ENCODE_AHEAD_CHUNKS["threads"],
) -> list[ChunkCheckpoint]:
    """Encode ``encode_ahead`` chunks ahead and decode one after another; return every checkpoint.

    ``take`` gets the result of each chunk, in order; nobody has to fetch it again.
    """
    lookahead_chunks = -(-steps.reading.sr_swa.lookahead_pages // min(len(c.page_numbers) for c in chunks))
    ahead = max(encode_ahead, lookahead_chunks)
    encoding: list[Callable[[], FeaturesRef]] = []
    checkpoints: list[ChunkCheckpoint] = []
    for index in range(len(chunks)):
        while len(encoding) < min(len(chunks), index + 1 + ahead):
            encoding.append(steps.start_encoding(chunks[len(encoding)]))
        needed = encoding[index : index + 1 + lookahead_chunks]
        checkpoint, result = steps.decode(chunks[index], [encoded() for encoded in needed], checkpoints)
        checkpoints.append(checkpoint)
        take(result)
        numbers = chunks[index].page_numbers
        about = {"document_id": steps.document.document_id, "page_numbers": numbers}
        logger.info("%s: pages %d-%d done", steps.document.document_id, numbers[0], numbers[-1], extra=about)
    return checkpoints
