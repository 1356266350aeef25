"""``tomeflow report``: one HTML file about one document, for the person who has to trust it.

Self-contained: no script, no file and no font of anybody else; text of the document is escaped, and the page
itself forbids scripts, so that what stands on a scanned page can do nothing.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from data_contracts.config import QualityConfig
from data_contracts.errors import ConfigError, StorageUnavailable
from data_contracts.quality.calibration import predicted_cer
from data_contracts.quality.data_docs import write_data_docs
from data_contracts.quality.page_facts import gather_document_facts, gather_page_facts
from data_contracts.quality.verdict import Verdict
from data_contracts.result import Line, PageResult
from data_contracts.warehouse.connection import read_warehouse
from flows.published import published_manifest, published_pages
from flows.report.line_crops import crop_lines
from flows.report.plot_svg import line_plot
from tasks import storage
from tasks.publishing.publish import published_digests
from tasks.publishing.registry import FORMATS
from tasks.validate import QUARANTINE_FOLDER, read_verdict, work_folder_of

if TYPE_CHECKING:
    import duckdb

REPORT_FILE = "report.html"
TEMPLATE = Path(__file__).with_name("report.html.j2")
WORST_LINES = 20
HELPED_LINES = 50
BYTES_PER_MB = 1e6


@dataclass(frozen=True)
class WorstLine:
    """A line that was read with little confidence, beside its picture."""

    page_number: int
    line: Line
    picture: str | None


@dataclass(frozen=True)
class PageFigures:
    """What the plots show of one page."""

    confidence: float | None
    hit_ratio: float | None
    predicted_cer: float | None


@dataclass(frozen=True)
class HelpedLine:
    """A line in which a word was mended that stood on earlier pages."""

    page_number: int
    text: str
    from_pages: tuple[int, ...]


@dataclass(frozen=True)
class Measured:
    """From the warehouse: (page number, decode time [ms], peak memory [bytes]), and error rates by page number."""

    timings: list[tuple[int, float | None, int | None]]
    cer: dict[int, float]


@dataclass(frozen=True)
class Sweep:
    """What one pass over the pages collects; ``helped`` are the first of ``helped_count`` lines."""

    figures: dict[int, PageFigures]
    worst: list[tuple[PageResult, Line]]
    helped: list[HelpedLine]
    helped_count: int


def write_report(folder: Path) -> Path:
    """Write ``report.html`` into the document's ``folder`` (published or in quarantine) and return its path.

    Raises:
        ConfigError: ``folder`` holds no document, or one without pages.jsonl.
        ContractViolated: its manifest, its pages or its verdict are damaged; other files that are, the report names.
        StorageUnavailable: the report cannot be written.
    """
    manifest = published_manifest(folder)
    sweep = _sweep(published_pages(folder, manifest))
    work = work_folder_of(folder)
    verdict = _verdict(work, manifest)
    damaged = storage.damaged_files(str(folder), published_digests(manifest))
    pdf_name = FORMATS["pdf"].file_name
    is_pictured = pdf_name in manifest["files"] and pdf_name not in damaged
    pdf = folder / pdf_name if is_pictured else None
    html = _render(
        manifest=manifest,
        source_name=PurePath(manifest["run"]["source"]).name,
        is_published=folder.parent.name != QUARANTINE_FOLDER,
        verdict=verdict,
        plots=_plots(sweep.figures, _measured(work, manifest), verdict),
        worst=_with_pictures(pdf, manifest["selected_pages"], sweep.worst),
        helped=sweep.helped,
        helped_count=sweep.helped_count,
        damaged=damaged,
    )
    storage.write_bytes(str(folder / REPORT_FILE), html.encode())
    return folder / REPORT_FILE


def _verdict(work: Path, manifest: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict on just this reading; None if this document was never judged as it is here."""
    try:
        verdict = read_verdict(work, manifest["document"]["document_id"])
    except ConfigError:
        return None
    return verdict if verdict.config_sha256 == manifest["config_sha256"] else None


def _sweep(pages: Iterable[PageResult]) -> Sweep:
    """Return the figures of all pages, the lines of least confidence, the worst first, and those that memory mended."""
    figures: dict[int, PageFigures] = {}
    worst: list[tuple[float, int, int, PageResult, Line]] = []
    helped: list[HelpedLine] = []
    helped_count = 0
    for page in pages:
        figures[page.page_number] = PageFigures(page.confidence, page.metrics.hit_ratio, predicted_cer(page))
        for line_number, line in enumerate(page.lines):
            entry = (-line.confidence, -page.page_number, -line_number, page, line)
            if len(worst) < WORST_LINES:
                heapq.heappush(worst, entry)
            elif entry[:3] > worst[0][:3]:
                heapq.heapreplace(worst, entry)
            if line.helped_by_pages:
                helped_count += 1
                if len(helped) < HELPED_LINES:
                    helped.append(HelpedLine(page.page_number, line.text, line.helped_by_pages))
    ordered = sorted(worst, key=lambda entry: entry[:3], reverse=True)
    return Sweep(figures, [(page, line) for *_, page, line in ordered], helped, helped_count)


def _with_pictures(pdf: Path | None, selected: list[int], worst: list[tuple[PageResult, Line]]) -> list[WorstLine]:
    """Return the lines with their pictures, as far as ``pdf`` has them: it shows the ``selected`` pages in order."""
    places = {page_number: position for position, page_number in enumerate(selected, start=1)}
    boxes = [(places[page.page_number], page, line.box) for page, line in worst]
    pictures = crop_lines(pdf, boxes) if pdf else [None] * len(boxes)
    return [WorstLine(page.page_number, line, picture) for (page, line), picture in zip(worst, pictures, strict=True)]


def _measured(work: Path, manifest: Mapping[str, Any]) -> Measured:
    """Return what the warehouse knows of this reading beyond its pages; nothing where there is none."""
    try:
        with read_warehouse(work) as connection:
            return _measured_in(connection, manifest) if connection else Measured([], {})
    except StorageUnavailable:
        return Measured([], {})


def _measured_in(connection: duckdb.DuckDBPyConnection, manifest: Mapping[str, Any]) -> Measured:
    key = [manifest["document"]["sha256"], manifest["config_sha256"]]
    timings = connection.execute(
        "SELECT page_number, decode_ms, peak_memory_bytes FROM pages "
        "WHERE document_sha256 = ? AND config_sha256 = ? ORDER BY page_number",
        key,
    ).fetchall()
    rates = connection.execute(
        "SELECT page_number, max(cer) FROM page_accuracy WHERE document_sha256 = ? AND config_sha256 = ? "
        "AND model_fingerprint = ? AND NOT is_estimate GROUP BY 1",
        [*key, manifest["model_fingerprint"]],
    ).fetchall()
    return Measured(timings, dict(rates))


def _plots(figures: Mapping[int, PageFigures], measured: Measured, verdict: Verdict | None) -> list[tuple[str, str]]:
    """Return (title, SVG) of every plot that has something to show."""
    marked = [page.page_number for page in verdict.quarantined] if verdict else []
    timings = measured.timings
    percent = {n: _percent(page.predicted_cer) for n, page in figures.items()}
    known = {n: _percent(measured.cer.get(n)) for n in figures}
    plots = [
        ("Confidence", line_plot({n: page.confidence for n, page in figures.items()}, "", marked)),
        ("Error rate that the confidence lets expect", line_plot(percent, "%", marked)),
        ("Error rate against the truth", line_plot(known, "%", marked)),
        ("Hits among fetched references", line_plot({n: page.hit_ratio for n, page in figures.items()}, "", marked)),
        ("Decoding time", line_plot({n: ms for n, ms, _ in timings}, "ms", marked)),
        ("Peak memory", line_plot({n: peak / BYTES_PER_MB if peak else None for n, _, peak in timings}, "MB", marked)),
    ]
    return [(title, svg) for title, svg in plots if svg]


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio


def _render(**fields: Any) -> str:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(**fields)


def data_docs(folder: Path, target: Path) -> Path:
    """Write Great Expectations' own pages about the document in ``folder`` to ``target`` and return their index.

    Raises:
        ConfigError: ``folder`` holds no document, or one without pages.jsonl.
        ContractViolated: its manifest or its pages are damaged.
    """
    manifest = published_manifest(folder)
    facts = gather_page_facts(published_pages(folder, manifest))
    whole = gather_document_facts(manifest["selected_pages"], facts, {})
    return write_data_docs(target, facts, whole, QualityConfig())


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow report`` with parsed ``options`` (``folder``, ``data_docs``) and return the exit code."""
    folder = Path(options.folder).resolve()
    print(write_report(folder))
    if options.data_docs:
        print(data_docs(folder, Path(options.data_docs)))
    return 0
