"""What the warehouse knows of a document's quality: measures, evaluations, verdicts, releases and accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from data_contracts.quality.page_facts import PageFacts
from data_contracts.quality.verdict import Evaluation, Release, Verdict
from data_contracts.result import GateStatus, PageResult
from data_contracts.warehouse.connection import upsert

if TYPE_CHECKING:
    import duckdb


def replace_quality(
    connection: duckdb.DuckDBPyConnection,
    verdict: Verdict,
    facts: Iterable[PageFacts],
    low_lines: Iterable[Mapping[str, Any]],
) -> None:
    """Write what the contracts said of a document in place of what they said before; releases stay."""
    key = {"document_sha256": verdict.document_sha256, "config_sha256": verdict.config_sha256}
    for table in ("page_measures", "low_confidence_lines", "evaluations"):
        connection.execute(f"DELETE FROM {table} WHERE document_sha256 = ? AND config_sha256 = ?", list(key.values()))
    statuses = verdict.gate_statuses()
    upsert(connection, "page_measures", [_measure_row(key, fact, statuses) for fact in facts])
    upsert(connection, "low_confidence_lines", [{**key, **line} for line in low_lines])
    upsert(connection, "evaluations", [_evaluation_row(key, verdict.run_id, e) for e in verdict.evaluations])
    _write_verdict(connection, key, verdict)


def add_releases(connection: duckdb.DuckDBPyConnection, verdict: Verdict, released: Iterable[Release]) -> None:
    """Write the ``verdict`` that ``released`` has led to, and the gate status of those pages."""
    key = {"document_sha256": verdict.document_sha256, "config_sha256": verdict.config_sha256}
    for release in released:
        connection.execute(
            "UPDATE page_measures SET gate_status = ? "
            "WHERE document_sha256 = ? AND config_sha256 = ? AND page_number = ?",
            [GateStatus.RELEASED.value, *key.values(), release.page_number],
        )
    _write_verdict(connection, key, verdict)


def add_evaluations(connection: duckdb.DuckDBPyConnection, verdict: Verdict, added: Iterable[Evaluation]) -> None:
    """Write ``added`` evaluations and the ``verdict`` that holds them."""
    key = {"document_sha256": verdict.document_sha256, "config_sha256": verdict.config_sha256}
    upsert(connection, "evaluations", [_evaluation_row(key, verdict.run_id, evaluation) for evaluation in added])
    _write_verdict(connection, key, verdict)


def _write_verdict(connection: duckdb.DuckDBPyConnection, key: Mapping[str, str], verdict: Verdict) -> None:
    row = {
        **key,
        "run_id": verdict.run_id,
        "quality_version": verdict.quality_version,
        "publishable": verdict.is_publishable,
        "selected_pages": verdict.selected_pages,
        "quarantined_pages": len(verdict.quarantined),
        "warnings": len(verdict.warnings),
        "summary": verdict.summary,
    }
    upsert(connection, "verdicts", [row])
    upsert(connection, "releases", [{**key, **release.model_dump()} for release in verdict.releases])


def read_releases(connection: duckdb.DuckDBPyConnection, document_sha256: str, config_sha256: str) -> list[Release]:
    """Return what people have released of a document read with this configuration, oldest first."""
    rows = connection.execute(
        "SELECT page_number, why, released_by, released_at FROM releases "
        "WHERE document_sha256 = ? AND config_sha256 = ? ORDER BY released_at, page_number",
        [document_sha256, config_sha256],
    ).fetchall()
    return [Release(page_number=n, why=why, released_by=name, released_at=at) for n, why, name, at in rows]


def read_page_cer(connection: duckdb.DuckDBPyConnection, document_sha256: str, run_id: str) -> dict[int, float]:
    """Return page number -> measured character error rate, of pages that were compared with a truth and read alike."""
    rows = connection.execute(
        "SELECT a.page_number, max(a.cer) FROM page_accuracy a JOIN runs r ON r.run_id = ? "
        "WHERE a.document_sha256 = ? AND a.config_sha256 = r.config_sha256 "
        "AND a.model_fingerprint = r.model_fingerprint AND NOT a.is_estimate GROUP BY 1",
        [run_id, document_sha256],
    ).fetchall()
    return dict(rows)


def _measure_row(key: Mapping[str, str], fact: PageFacts, statuses: Mapping[int, GateStatus]) -> dict[str, Any]:
    return {
        **key,
        "page_number": fact.page_number,
        "printed_number": fact.printed_number,
        "printed_style": fact.printed_style,
        "predicted_cer": fact.predicted_cer,
        **fact.measures.model_dump(),
        "gate_status": statuses.get(fact.page_number, GateStatus.PASSED).value,
    }


def _evaluation_row(key: Mapping[str, str], run_id: str, evaluation: Evaluation) -> dict[str, Any]:
    fields = evaluation.model_dump(include={"suite", "expectation", "severity", "success", "detail"})
    return {**key, "run_id": run_id, **fields, "failing_pages": len(evaluation.pages)}


def low_confidence_rows(page: PageResult, below: float) -> Iterator[dict[str, Any]]:
    """Yield the lines of ``page`` that a person should check, without the document's key."""
    for line_number, line in enumerate(page.lines, start=1):
        if line.confidence < below:
            yield {
                "page_number": page.page_number,
                "line_number": line_number,
                "text": line.text,
                "confidence": line.confidence,
                **{f"{side}_px": value for side, value in line.box.model_dump().items()},
            }
