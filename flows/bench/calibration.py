"""``tomeflow bench calibration``: the error rate that confidence lets expect, beside the one that the truth shows.

All pages of the books with text, in order of their predicted rate and cut into ten equal parts. The curves were fitted
on generated pages (``data_contracts/quality/calibration.py``); the books only measure them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_contracts.errors import ConfigError
from flows.bench.readers import find_books, spread

if TYPE_CHECKING:
    from data_contracts.result import PageResult

PARTS = 10
PROMISED_FACTOR, PROMISED_PARTS = 2.0, 8
GOAL_FACTOR = 1.5


@dataclass(frozen=True)
class MeasuredPage:
    """A page with its predicted rate and its errors against the truth (normalised, at most one a character)."""

    book: str
    page_number: int
    predicted_cer: float
    characters: int
    errors: int


@dataclass(frozen=True)
class Part:
    """A tenth of the pages: micro-averages, and how far apart they are."""

    pages: int
    predicted_cer: float
    measured_cer: float

    @property
    def factor(self) -> float:
        """The larger rate over the smaller."""
        low, high = sorted((self.predicted_cer, self.measured_cer))
        return high / low if low else float("inf") if high else 1.0


def main(arguments: Sequence[str]) -> int:
    """Run ``tomeflow bench calibration`` and return the exit code.

    Raises:
        ConfigError: the data, a book or a reading of it is not there.
        ModelUnavailable: the compact model cannot be loaded.
    """
    options = _parsed(arguments)
    pages = [
        page
        for book in find_books(options.data / "books", options.books)
        for page in measure_book(book, options.readings, options.pages_per_book)
    ]
    report = as_report(cut(pages))
    if options.plot:
        from flows.report.plot_svg import reliability_plot

        points = [(part["predicted_cer"], part["measured_cer"]) for part in report["parts"]]
        options.plot.write_text(reliability_plot(points, PROMISED_FACTOR), encoding="utf-8")
    print(json.dumps(report) if options.json else as_text(report))
    return 0


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tomeflow bench calibration", description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="has a folder books: scans, each with its truth")
    add("--books", type=lambda text: text.split(","), metavar="A,B", help="books, or beginnings of their names")
    add("--pages-per-book", type=int, metavar="N", help="pages read, spread over each book (default: all)")
    add("--readings", type=Path, metavar="OUT", help="take what tomeflow run published there instead of reading")
    add("--plot", type=Path, metavar="FILE.svg", help="write a reliability plot")
    add("--json", action="store_true", help="print one JSON object and nothing else on standard output")
    return parser.parse_args(arguments)


def measure_book(book: Path, readings: Path | None, pages_per_book: int | None) -> Iterator[MeasuredPage]:
    """Yield the pages of ``book`` that were read as text, compared with its truth."""
    from data_contracts.quality.calibration import predicted_cer
    from data_contracts.text import edit_distance, normalise_pair
    from flows.evaluate import read_truth

    page_count = len((book / "pages.tsv").read_text(encoding="utf-8").splitlines()) - 1
    truths = read_truth(book, page_count)
    wanted = set(spread(list(truths), pages_per_book))
    for page in _published(book, readings) if readings else _read(book, sorted(wanted)):
        predicted = predicted_cer(page)
        truth, text = normalise_pair(truths[page.page_number], page.text)
        if page.page_number in wanted and predicted is not None and truth:
            errors = edit_distance(truth, text, cap=True)
            yield MeasuredPage(book.name, page.page_number, predicted, len(truth), errors)


def _published(book: Path, readings: Path) -> Iterator[PageResult]:
    from data_contracts.formats.manifest import MANIFEST
    from flows.published import published_manifest, published_pages

    for file in sorted(readings.glob(f"*/{MANIFEST}")):
        manifest = published_manifest(file.parent)
        if Path(manifest["run"]["source"]).name == f"{book.name}.pdf":
            yield from published_pages(file.parent, manifest)
            return
    raise ConfigError(
        f"{readings} holds no reading of {book.name}.pdf: tomeflow run it there, or leave out --readings."
    )


def _read(book: Path, page_numbers: Sequence[int]) -> Iterator[PageResult]:
    from data_contracts.config import ReadingConfig
    from models.sr_swa.continuous import ContinuousDecoder
    from models.zoo import load_model
    from tasks.sources.render import PageSource

    reading = ReadingConfig()
    model = load_model(reading)
    decoder = ContinuousDecoder(model, reading.sr_swa, config_sha256=reading.sha256)
    with PageSource(book / f"{book.name}.pdf", "pdf", reading.render) as source:
        yield from decoder.decode(model.encode_visual(source.render(number)) for number in page_numbers)


def cut(pages: Sequence[MeasuredPage], parts: int = PARTS) -> list[Part]:
    """Return ``parts`` of nearly as many pages each, from the lowest prediction to the highest.

    Raises:
        ConfigError: there are fewer pages than parts.
    """
    if len(pages) < parts:
        raise ConfigError(f"{len(pages)} pages with text are too few for {parts} parts: read more.")
    ordered = sorted(pages, key=lambda page: page.predicted_cer)
    cuts = [len(ordered) * part // parts for part in range(parts + 1)]
    return [_part(ordered[start:stop]) for start, stop in pairwise(cuts)]


def _part(pages: Sequence[MeasuredPage]) -> Part:
    characters = sum(page.characters for page in pages)
    expected = sum(page.predicted_cer * page.characters for page in pages)
    return Part(len(pages), expected / characters, sum(page.errors for page in pages) / characters)


def as_report(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the figures, and how many parts keep the promise and the goal."""
    return {
        "pages": sum(part.pages for part in parts),
        "parts": [{**asdict(part), "factor": part.factor} for part in parts],
        "within_promise": sum(part.factor <= PROMISED_FACTOR for part in parts),
        "within_goal": sum(part.factor <= GOAL_FACTOR for part in parts),
    }


def as_text(report: dict[str, Any]) -> str:
    """Return the figures for people."""
    lines = ["part  pages  predicted  measured  factor"]
    for number, part in enumerate(report["parts"], start=1):
        rates = f"{part['predicted_cer']:10.2%} {part['measured_cer']:9.2%}"
        lines.append(f"{number:4d} {part['pages']:6d} {rates} {part['factor']:7.2f}")
    lines.append(
        f"{report['pages']} pages; within a factor of {PROMISED_FACTOR}: {report['within_promise']} parts "
        f"(promised: {PROMISED_PARTS}), of {GOAL_FACTOR}: {report['within_goal']}"
    )
    return "\n".join(lines)
