"""``tomeflow bench eyes``: how well the compact model reads real books, beside RapidOCR and Tesseract.

All three read the same rendered pages in the same run; the truth is the shared books' (``BOOK/pages.tsv`` and
``page_NNNN.gt.txt``). Rates are of normalised text (``data_contracts/text.py``), micro-averaged, a page's capped at 1.
Times are of reading only: no rendering, no loading of models, except that Tesseract is a process a page.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_contracts.errors import ConfigError

if TYPE_CHECKING:
    from data_contracts.config import ReadingConfig
    from flows.evaluate import Evaluation
    from flows.rival_readers import Reader
    from models.sr_swa.protocol import PageImage

OURS, PLAIN, TESSERACT = "tomeflow", "rapidocr", "tesseract"
BOOKS_FOLDER = "books"
DEFAULT_DATA = "../shared/data"

CLEAN_ENGLISH_BOOKS = (
    "en_betrayed_armenia_1910",
    "en_child_of_the_moat_1916",
    "en_corset_and_crinoline_1868",
    "en_horton_genealogy_1876",
    "en_lusitania_1915",
)
COLUMNS_BOOK = "fr_argus_brevets_1910_twocol_b"
VERTICAL_LANGUAGE = "zh"

MOST_ENGLISH_CER = 0.01
MOST_OF_TESSERACT_RATIO = 0.8
MOST_ABOVE_PLAIN = 0.001
LEAST_BAG_RECALL = 0.90
LEAST_IN_SEQUENCE_RATIO = 0.95
"""What the project promises; a run says which of it did not hold."""

SAME_COLUMN_SIMILARITY = 0.5
"""A read line is a printed column if at least half of it agrees: editions break their columns a little differently."""


@dataclass
class _Tally:
    """What one reader made of one book, page by page."""

    triples: list[tuple[int, str, str]] = field(default_factory=list)
    seconds: float = 0.0
    in_sequence: int = 0
    pairs: int = 0

    def add(self, page_number: int, truth: str, lines: Sequence[str], seconds: float, *, is_vertical: bool) -> None:
        """Count one page."""
        self.triples.append((page_number, truth, "\n".join(lines)))
        self.seconds += seconds
        if is_vertical:
            agreeing, pairs = columns_in_sequence(truth.splitlines(), lines)
            self.in_sequence += agreeing
            self.pairs += pairs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tomeflow bench eyes``."""
    add = parser.add_argument
    add("--data", type=Path, default=Path(DEFAULT_DATA), metavar="DIR", help=f"shared data (default: {DEFAULT_DATA})")
    add("--books", type=_names, metavar="A,B", help="books, or the beginnings of their names (default: all)")
    add("--pages-per-book", type=_count, metavar="N", help="pages read, spread over the book (default: all)")
    add("--dpi", type=_dpi, default=None, metavar="auto|N", help="rendering resolution (default: the scan's own)")
    add("--json", action="store_true", help="print one JSON object and nothing else on standard output")


def main(arguments: Sequence[str] | argparse.Namespace) -> int:
    """Run ``tomeflow bench eyes`` and return the exit code; progress goes to standard error.

    Raises:
        ConfigError: the data or a book is not there.
        ModelUnavailable: the compact model cannot be loaded.
    """
    options = arguments if isinstance(arguments, argparse.Namespace) else _parsed(arguments)
    report = run(options.data, options.books, options.pages_per_book, options.dpi)
    print(json.dumps(report) if options.json else as_text(report))
    return 0


def run(
    data: Path, books: Sequence[str] | None = None, pages_per_book: int | None = None, dpi: int | None = None
) -> dict[str, Any]:
    """Read the chosen books with every reader; return conditions, books, totals and what fell short.

    ``books`` are names or beginnings of names, ``pages_per_book`` None for all, ``dpi`` None for the scans' own.

    Raises:
        ConfigError: the data or a book is not there.
        ModelUnavailable: the compact model cannot be loaded.
    """
    from data_contracts.config import ReadingConfig, RenderConfig
    from flows.rival_readers import PlainRapidOcr, Tesseract, machine

    folders = _chosen(data / BOOKS_FOLDER, books)
    reading = ReadingConfig(render=RenderConfig(dpi=dpi))
    plain = PlainRapidOcr(reading.compact.threads)
    reports = []
    for folder in folders:
        readers: dict[str, Reader] = {OURS: OwnReader(reading), PLAIN: plain, TESSERACT: Tesseract(folder.name)}
        reports.append(_read_book(folder, readers, reading, pages_per_book))
    english = [report for report in reports if report["book"] in CLEAN_ENGLISH_BOOKS]
    report = {
        "conditions": machine()
        | {
            "threads": reading.compact.threads,
            "detector_side_px": reading.compact.detector_side_px,
            "dpi": dpi or "auto",
            "pages_per_book": pages_per_book or "all",
        },
        "books": reports,
        "clean_english_books": _together(english) if english else None,
    }
    return report | {"shortfalls": shortfalls(report)}


class OwnReader:
    """The compact model in the loop that digitizes documents, with one attention set a book."""

    absent_because: str | None = None

    def __init__(self, reading: ReadingConfig) -> None:
        """Load the model, once per process."""
        from models.sr_swa.continuous import ContinuousDecoder
        from models.zoo import load_model

        self._model = load_model(reading)
        self._decoder = ContinuousDecoder(self._model, reading.sr_swa, config_sha256=reading.sha256)

    def read(self, page: PageImage) -> list[str]:
        """Return the text lines of ``page`` in reading order."""
        encoded = self._model.encode_visual(page)
        return [line.text for result in self._decoder.decode([encoded]) for line in result.lines]


def columns_in_sequence(printed: Sequence[str], read: Sequence[str]) -> tuple[int, int]:
    """Return how many neighbouring printed columns were read in their order, and how many neighbours were read.

    A printed column counts as read if some read line is at least half equal to it; the best matches are taken first
    and each line once. Columns that were not read are passed over: what is judged is order, not characters.
    """
    from rapidfuzz.distance import Levenshtein

    from data_contracts.text import normalise

    sides = [[normalise(column, language=VERTICAL_LANGUAGE) for column in columns] for columns in (printed, read)]
    matches = sorted(
        (-Levenshtein.normalized_similarity(column, line), place, position)
        for place, column in enumerate(sides[0])
        for position, line in enumerate(sides[1])
        if column and line
    )
    position_of: dict[int, int] = {}
    for dissimilarity, place, position in matches:
        is_free = place not in position_of and position not in position_of.values()
        if -dissimilarity >= SAME_COLUMN_SIMILARITY and is_free:
            position_of[place] = position
    positions = [position_of[place] for place in sorted(position_of)]
    neighbours = list(zip(positions, positions[1:], strict=False))
    return sum(first < second for first, second in neighbours), len(neighbours)


def shortfalls(report: Mapping[str, Any]) -> list[str]:
    """Return, in words with numbers, each promise about accuracy that the figures of ``report`` do not keep."""
    found = []
    for book in report["books"]:
        name, ours, plain, tesseract = book["book"], book[OURS], book[PLAIN], book[TESSERACT]
        if ours["cer"] > plain["cer"] + MOST_ABOVE_PLAIN:
            found.append(f"{name}: CER {ours['cer']:.2%}, plain RapidOCR {plain['cer']:.2%}")
        if name == COLUMNS_BOOK and tesseract["cer"] is not None and ours["cer"] > tesseract["cer"]:
            found.append(f"{name}: CER {ours['cer']:.2%}, Tesseract {tesseract['cer']:.2%}")
        if ours["in_sequence_ratio"] is not None and ours["in_sequence_ratio"] < LEAST_IN_SEQUENCE_RATIO:
            found.append(f"{name}: {ours['in_sequence_ratio']:.1%} of columns in sequence")
        if ours["in_sequence_ratio"] is not None and ours["bag_recall"] < LEAST_BAG_RECALL:
            found.append(f"{name}: character-bag recall {ours['bag_recall']:.1%}")
    english = report["clean_english_books"]
    if english and english["pages"] and english[OURS]["cer"] > MOST_ENGLISH_CER:
        found.append(f"clean English books: CER {english[OURS]['cer']:.2%}")
    if english and (english["ratio_to_tesseract"] or 0) > MOST_OF_TESSERACT_RATIO:
        found.append(f"clean English books: {english['ratio_to_tesseract']:.2f} of Tesseract's CER")
    return found


def as_text(report: Mapping[str, Any]) -> str:
    """Return the report as a table for people."""
    lines = [f"{name}: {value}" for name, value in report["conditions"].items()]
    lines += ["", f"{'':42}{'':6}{'':11}" + "".join(f"{name:>31}" for name in READERS)]
    figures = f"{'CER':>9}{'median':>8}{'>5 %':>6}{'s/page':>8}"
    lines.append(f"{'book':42}{'pages':>6}{'characters':>11}" + figures * len(READERS))
    english = report["clean_english_books"]
    for book in [*report["books"], *([english] if english else [])]:
        head = f"{book['book']:42}{len(book['page_numbers']) or book['pages']:6}{book['characters']:11,}"
        lines.append(head + "".join(_cells(book[name]) for name in READERS))
    for book in report["books"]:
        for name in READERS:
            lines += _remarks(book["book"], name, book[name])
    if english and english["ratio_to_tesseract"] is not None:
        lines += ["", f"clean English books: {english['ratio_to_tesseract']:.2f} of Tesseract's CER"]
    lines += ["", *(f"FALLS SHORT  {text}" for text in report["shortfalls"])]
    return "\n".join(lines).rstrip()


def _read_book(
    folder: Path, readers: Mapping[str, Reader], reading: ReadingConfig, pages_per_book: int | None
) -> dict[str, Any]:
    from flows.evaluate import read_truth
    from tasks.render import PageSource

    truths = read_truth(folder, 0)
    page_numbers = spread(sorted(truths), pages_per_book)
    tallies = {name: Tally() for name, reader in readers.items() if reader.absent_because is None}
    with PageSource(folder / f"{folder.name}.pdf", "pdf", reading.render) as pages:
        for number in page_numbers:
            print(f"{folder.name} page {number}", file=sys.stderr, flush=True)
            page = pages.render(number)
            for name, tally in tallies.items():
                tally.add(number, truths[number], *_timed(readers[name].read, page))
    is_vertical = folder.name.startswith(VERTICAL_LANGUAGE)
    rows = {
        name: tallies[name].as_json(is_vertical) if name in tallies else {"cer": None, "absent": reader.absent_because}
        for name, reader in readers.items()
    }
    characters = tallies[OURS].evaluation().characters
    return {"book": folder.name, "page_numbers": page_numbers, "characters": characters, **rows}


def _timed(read: Callable[[PageImage], list[str]], page: PageImage) -> tuple[list[str], float]:
    started = time.perf_counter()
    lines = read(page)
    return lines, time.perf_counter() - started
