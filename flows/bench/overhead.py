"""``tomeflow bench overhead``: what orchestration costs, in start-up, for each document and for each chunk.

The same blank pages are read in few and in many portions; what the pages cost cancels out in the difference.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from data_contracts.config import DigitizeConfig
from flows.serving.prefect_server import prefect_api
from tasks.sources.pdf.mupdf import mupdf

PAGE_SIDE_PT = 100
MS_PER_SECOND = 1000.0


def measure_overhead(pages: int, documents: int, rounds: int) -> dict[str, float]:
    """Return the medians over ``rounds`` [s, ms]: ``pages`` one-page chunks against one, as with ``documents``."""
    with tempfile.TemporaryDirectory(prefix="tomeflow-") as folder:
        started = time.monotonic()
        with prefect_api(Path(folder) / "server", None):
            server_s = time.monotonic() - started
            return {"server_start_s": server_s, **_measure_runs(Path(folder), pages, documents, rounds)}


def _measure_runs(folder: Path, pages: int, documents: int, rounds: int) -> dict[str, float]:
    started = time.monotonic()
    from flows.digitize import digitize_collection

    imports_s = time.monotonic() - started

    def run(sources: Sequence[str], chunk_pages: int) -> Callable[[], object]:
        config = DigitizeConfig(chunk_pages=chunk_pages, formats=("txt",))
        return lambda: digitize_collection(list(sources), str(folder / "out"), config, True, documents_at_once=1)

    book = _blank_book(folder / "book.pdf", pages)
    stack = _blank_book(folder / "stack.pdf", documents)
    singles = [_blank_book(folder / f"single-{number}.pdf", 1) for number in range(documents)]
    first_run_s = _seconds(run([singles[0]], 1), 1)
    chunks_s = _seconds(run([book], 1), rounds) - _seconds(run([book], pages), rounds)
    documents_s = _seconds(run(singles, 1), rounds) - _seconds(run([stack], documents), rounds)
    return {
        "flow_imports_s": imports_s,
        "first_run_with_model_s": first_run_s,
        "chunk_ms": MS_PER_SECOND * chunks_s / (pages - 1),
        "document_ms": MS_PER_SECOND * documents_s / (documents - 1),
    }


def _seconds(run: Callable[[], object], rounds: int) -> float:
    """Return the median duration of ``run`` [s]."""
    durations = []
    for _ in range(rounds):
        started = time.monotonic()
        run()
        durations.append(time.monotonic() - started)
    return statistics.median(durations)


def _blank_book(path: Path, pages: int) -> str:
    with mupdf() as pymupdf, pymupdf.open() as document:
        for number in range(pages):
            document.new_page(width=PAGE_SIDE_PT, height=PAGE_SIDE_PT + number % 2)
        document.set_metadata({"title": path.stem})  # equal bytes would be one document
        document.save(path)
    return str(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print one line a figure, or one JSON object."""
    parser = argparse.ArgumentParser(prog="tomeflow bench overhead", description=__doc__)
    parser.add_argument("--pages", type=int, default=33, metavar="N", help="chunks of one page (default: 33)")
    parser.add_argument("--documents", type=int, default=9, metavar="N", help="documents of one page (default: 9)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of which the median counts (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.pages < 2 or options.documents < 2 or options.rounds < 1:
        parser.error("differences need two pages, two documents and a round")
    figures = measure_overhead(options.pages, options.documents, options.rounds)
    if options.json:
        print(json.dumps(figures))
    else:
        print("\n".join(f"{name:24}{value:10.2f}" for name, value in figures.items()))
    return 0
