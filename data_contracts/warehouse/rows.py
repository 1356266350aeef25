"""What was read, as rows of the warehouse's tables ``documents``, ``chunks``, ``pages`` and ``events``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from data_contracts.document import DocumentRef
from data_contracts.result import ChunkResult, PageResult, PageTimings


def document_row(document: DocumentRef) -> dict[str, Any]:
    """Return the row of ``documents``."""
    return {
        "document_sha256": document.sha256,
        "document_id": document.document_id,
        "uri": document.uri,
        "kind": document.kind,
        "page_count": document.page_count,
    }


def chunk_row(
    document: DocumentRef,
    config_sha256: str,
    run_id: str,
    chunk_number: int,
    chunk: ChunkResult,
    timings: Sequence[PageTimings],
) -> dict[str, Any]:
    """Return the row of ``chunks``; ``timings`` are those of this run, empty for a chunk of an earlier one."""
    return {
        "document_sha256": document.sha256,
        "config_sha256": config_sha256,
        "chunk_number": chunk_number,
        "run_id": run_id,
        "first_page": chunk.pages[0].page_number,
        "last_page": chunk.pages[-1].page_number,
        "pages": len(chunk.pages),
        "state_sha256": chunk.state.sha256,
        "state_bytes": chunk.state.size_bytes,
        "decode_ms": sum(timing.decode_ms for timing in timings) if timings else None,
    }


def page_rows(
    document: DocumentRef,
    config_sha256: str,
    run_id: str,
    pages: Iterable[PageResult],
    timings: Mapping[int, PageTimings],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``pages``: the reading, its deterministic metrics, and this run's timings if known."""
    for page in pages:
        metrics = page.metrics.model_dump(exclude={"reference_tokens"})
        timing = timings.get(page.page_number)
        yield {
            "document_sha256": document.sha256,
            "config_sha256": config_sha256,
            "run_id": run_id,
            **page.model_dump(
                mode="json",
                include={
                    "page_number",
                    "status",
                    "blank_reason",
                    "error",
                    "stop_reason",
                    "degraded_by",
                    "width_px",
                    "height_px",
                    "dpi",
                    "rotation",
                },
            ),
            "lines": len(page.lines),
            "characters": len(page.text),
            "confidence": page.confidence,
            **metrics,
            "hit_ratio": page.metrics.hit_ratio,
            "stale_context": page.stale_context,
            "text_layer": None,  # known when document.pdf is written
            "decode_ms": timing.decode_ms if timing else None,
            "step_latency_p50_ms": timing.step_latency_p50_ms if timing else None,
            "step_latency_p95_ms": timing.step_latency_p95_ms if timing else None,
            "peak_memory_bytes": timing.peak_memory_bytes if timing else None,
        }


def event_rows(document: DocumentRef, config_sha256: str, pages: Iterable[PageResult]) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``events``."""
    for page in pages:
        for event_number, event in enumerate(page.events, start=1):
            yield {
                "document_sha256": document.sha256,
                "config_sha256": config_sha256,
                "page_number": page.page_number,
                "event_number": event_number,
                "kind": event.kind,
                "detail": event.detail,
            }
