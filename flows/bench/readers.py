"""``tomeflow bench readers``: how well the compact model reads real books, beside RapidOCR and Tesseract.

All three read the same rendered pages in the same run; the truth is the shared books' (``BOOK/pages.tsv`` and
``page_NNNN.gt.txt``). Rates are of normalised text (``data_contracts/text.py``), micro-averaged, a page's capped at 1.
Times are of reading only: no rendering, no loading of models, except that Tesseract starts once a page.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_contracts.errors import ConfigError

if TYPE_CHECKING:
    from data_contracts.config import ReadingConfig
    from flows.baseline_readers import Reader
    from models.sr_swa.pages import PageImage

OURS, PLAIN, TESSERACT = READERS = ("tomeflow", "rapidocr", "tesseract")
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
"""What the project promises; every run says which of it did not hold."""

SAME_COLUMN_SIMILARITY = 0.5
"""A read line is a printed column if at least half of it agrees: editions break their columns a little differently."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tomeflow bench readers``."""
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="has a folder books: scans, each with its truth")
    add("--books", type=_names, metavar="A,B", help="books, or the beginnings of their names (default: all)")
    add("--pages-per-book", type=_count, metavar="N", help="pages read, spread over each book (default: all)")
    add("--dpi", type=_dpi, metavar="auto|N", help="rendering resolution (default: the scan's own)")
    add("--json", action="store_true", help="print one JSON object and nothing else on standard output")


def main(arguments: Sequence[str] | argparse.Namespace) -> int:
    """Run ``tomeflow bench readers`` and return the exit code; progress goes to standard error.

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
    from flows.baseline_readers import PlainRapidOcr, Tesseract, machine

    folders = find_books(data / "books", books)
    reading = ReadingConfig(render=RenderConfig(dpi=dpi))
    plain = PlainRapidOcr(reading.compact.threads)
    reports = []
    for folder in folders:
        readers: tuple[Reader, ...] = (OwnReader(reading), plain, Tesseract(folder.name))
        reports.append(_read_book(folder, dict(zip(READERS, readers, strict=True)), reading, pages_per_book))
    conditions = machine() | {
        "threads": reading.compact.threads,
        "detector_side_px": reading.compact.detector_side_px,
        "dpi": dpi or "auto",
        "pages_per_book": pages_per_book or "all",
    }
    english = _together([book for book in reports if book["book"] in CLEAN_ENGLISH_BOOKS])
    report = {"conditions": conditions, "books": reports, "clean_english_books": english}
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


def find_books(folder: Path, wanted: Sequence[str] | None = None) -> list[Path]:
    """Return the folders of the books whose names begin with one of ``wanted``, or of all.

    Raises:
        ConfigError: there are no books, or none for one of ``wanted``.
    """
    books = [path.parent for path in sorted(folder.glob("*/pages.tsv"))]
    if not books:
        raise ConfigError(f"{folder} holds no books (BOOK/pages.tsv and BOOK/BOOK.pdf): name the data with --data.")
    names = wanted or [""]
    if unknown := [name for name in names if not any(book.name.startswith(name) for book in books)]:
        raise ConfigError(f"no book begins with {', '.join(unknown)}; there are {', '.join(b.name for b in books)}.")
    return [book for book in books if book.name.startswith(tuple(names))]


def spread(page_numbers: Sequence[int], count: int | None) -> list[int]:
    """Return ``count`` of ``page_numbers`` from the middles of as many equal parts, or all."""
    if count is None or count >= len(page_numbers):
        return list(page_numbers)
    return [page_numbers[(2 * part + 1) * len(page_numbers) // (2 * count)] for part in range(count)]


def columns_in_sequence(printed: Sequence[str], read: Sequence[str]) -> tuple[int, int]:
    """Return how many neighbouring printed columns were read one before the other, and how many neighbours were read.

    A printed column counts as read if some read line is at least half equal to it; the best matches are taken first
    and each line once. Columns that were not read are passed over: what is judged is order, not characters.
    """
    from rapidfuzz.distance import Levenshtein

    from data_contracts.text import normalise

    columns, lines = ([normalise(text, language=VERTICAL_LANGUAGE) for text in side] for side in (printed, read))
    matches = sorted(
        (1 - similarity, place, position)
        for place, column in enumerate(columns)
        for position, line in enumerate(lines)
        if column and (similarity := Levenshtein.normalized_similarity(column, line)) >= SAME_COLUMN_SIMILARITY
    )
    position_of: dict[int, int] = {}
    for _, place, position in matches:
        if place not in position_of and position not in position_of.values():
            position_of[place] = position
    positions = [position_of[place] for place in sorted(position_of)]
    return sum(before < after for before, after in pairwise(positions)), max(len(positions) - 1, 0)


def shortfalls(report: Mapping[str, Any]) -> list[str]:
    """Return, in words with numbers, each promise about accuracy that the figures of ``report`` do not keep."""
    found = []
    for book in report["books"]:
        name, ours, plain, tesseract = book["book"], book[OURS], book[PLAIN], book[TESSERACT]
        if ours["cer"] > plain["cer"] + MOST_ABOVE_PLAIN:
            found.append(f"{name}: CER {ours['cer']:.2%}, plain RapidOCR {plain['cer']:.2%}")
        if name == COLUMNS_BOOK and tesseract and ours["cer"] > tesseract["cer"]:
            found.append(f"{name}: CER {ours['cer']:.2%}, Tesseract {tesseract['cer']:.2%}")
        in_sequence = ours["columns_in_sequence_ratio"]
        if in_sequence is not None and in_sequence < LEAST_IN_SEQUENCE_RATIO:
            found.append(f"{name}: {in_sequence:.1%} of columns in sequence")
        if in_sequence is not None and ours["bag_recall"] < LEAST_BAG_RECALL:
            found.append(f"{name}: character-bag recall {ours['bag_recall']:.1%}")
    english = report["clean_english_books"]
    if english and english[OURS] > MOST_ENGLISH_CER:
        found.append(f"clean English books: CER {english[OURS]:.2%}")
    if english and english["ratio_to_tesseract"] and english["ratio_to_tesseract"] > MOST_OF_TESSERACT_RATIO:
        found.append(f"clean English books: {english['ratio_to_tesseract']:.2f} of Tesseract's CER")
    return found


def as_text(report: Mapping[str, Any]) -> str:
    """Return the report as a table for people."""
    lines = [f"{name}: {value}" for name, value in report["conditions"].items()]
    lines += ["", f"{'':59}" + "".join(f"{name:>31}" for name in READERS)]
    lines.append(f"{'book':42}{'pages':>6}{'characters':>11}" + f"{'CER':>9}{'median':>8}{'>5 %':>6}{'s/page':>8}" * 3)
    remarks = []
    for book in report["books"]:
        head = f"{book['book']:42}{len(book['page_numbers']):6}{book['characters']:11,}"
        lines.append(head + "".join(_cells(book[name]) for name in READERS))
        remarks += [f"{book['book']}: no {name}: {reason}" for name, reason in book["absent"].items()]
        remarks += [
            f"{book['book']}: {name}: character-bag recall {book[name]['bag_recall']:.1%}, "
            f"{book[name]['columns_in_sequence_ratio']:.1%} of neighbouring columns in sequence"
            for name in READERS
            if book[name] and book[name]["columns_in_sequence_ratio"] is not None
        ]
    if english := report["clean_english_books"]:
        head = f"{'clean English books together':42}{english['pages']:6}{english['characters']:11,}"
        rates = "".join(
            f"{'-' if english[name] is None else format(english[name], '.2%'):>9}{'':22}" for name in READERS
        )
        lines.append((head + rates).rstrip())
        if english["ratio_to_tesseract"] is not None:
            remarks.append(f"clean English books: {english['ratio_to_tesseract']:.2f} of Tesseract's CER")
    lines += ["", *remarks, *(f"FALLS SHORT  {text}" for text in report["shortfalls"])]
    return "\n".join(lines).rstrip()


def _read_book(
    folder: Path, readers: Mapping[str, Reader], reading: ReadingConfig, pages_per_book: int | None
) -> dict[str, Any]:
    from flows.evaluate import read_truth
    from tasks.sources.render import PageSource

    truths = read_truth(folder, page_count=0)
    page_numbers = spread(sorted(truths), pages_per_book)
    tallies = {name: _Tally() for name, reader in readers.items() if reader.absent_because is None}
    with PageSource(folder / f"{folder.name}.pdf", "pdf", reading.render) as pages:
        for number in page_numbers:
            print(f"{folder.name} page {number}", file=sys.stderr, flush=True)
            page = pages.render(number)
            for name, tally in tallies.items():
                tally.read(readers[name], page, truths[number])
    figures = {name: tally.figures(folder.name.startswith(VERTICAL_LANGUAGE)) for name, tally in tallies.items()}
    return {
        "book": folder.name,
        "page_numbers": page_numbers,
        "characters": figures[OURS]["characters"],
        **{name: figures.get(name) for name in READERS},
        "absent": {name: reader.absent_because for name, reader in readers.items() if name not in tallies},
    }


class _Tally:
    """What one reader made of one book."""

    def __init__(self) -> None:
        self._pages: list[tuple[int, str, list[str]]] = []
        self._seconds = 0.0

    def read(self, reader: Reader, page: PageImage, truth: str) -> None:
        """Have ``page`` read, on the clock."""
        started = time.perf_counter()
        lines = reader.read(page)
        self._seconds += time.perf_counter() - started
        self._pages.append((page.page_number, truth, lines))

    def figures(self, is_vertical: bool) -> dict[str, Any]:
        """Return rates and times; the order of columns is judged in vertical books only."""
        from flows.evaluate import score

        result = score((number, truth, "\n".join(lines)) for number, truth, lines in self._pages)
        orders = [columns_in_sequence(truth.splitlines(), lines) for _, truth, lines in self._pages if is_vertical]
        neighbours = sum(pairs for _, pairs in orders)
        found = sum(page.bag_recall * page.characters for page in result.per_page)
        return {
            "cer": result.cer,
            "characters": result.characters,
            "character_errors": sum(page.character_errors for page in result.per_page),
            "median_page_cer": result.median_page_cer,
            "over_5_percent_ratio": result.over_5_percent_ratio,
            "seconds_per_page": self._seconds / len(self._pages),
            "bag_recall": found / result.characters if result.characters else 1.0,
            "columns_in_sequence_ratio": sum(agreeing for agreeing, _ in orders) / neighbours if neighbours else None,
            "page_cer": {page.page_number: page.cer for page in result.per_page},
        }


def _together(books: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the character error rates over all ``books``; null for a reader that was absent from one."""
    if not books:
        return None
    characters = sum(book["characters"] for book in books)
    rates: dict[str, float | None] = {
        name: sum(book[name]["character_errors"] for book in books) / characters
        if all(b[name] for b in books)
        else None
        for name in READERS
    }
    ours, tesseract = rates[OURS], rates[TESSERACT]
    return {
        "books": [book["book"] for book in books],
        "pages": sum(len(book["page_numbers"]) for book in books),
        "characters": characters,
        **rates,
        "ratio_to_tesseract": ours / tesseract if ours is not None and tesseract else None,
    }


def _cells(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return f"{'-':>9}{'-':>8}{'-':>6}{'-':>8}"
    rates = f"{figures['cer']:9.2%}{figures['median_page_cer']:8.2%}{figures['over_5_percent_ratio']:6.0%}"
    return rates + f"{figures['seconds_per_page']:8.2f}"


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tomeflow bench readers", description="Accuracy of the compact model beside RapidOCR and Tesseract."
    )
    add_arguments(parser)
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def _dpi(text: str) -> int | None:
    return None if text == "auto" else _count(text)
