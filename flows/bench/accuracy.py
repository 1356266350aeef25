"""``tomeflow bench accuracy``: what memory and word lists do for the compact model, on real pages made worse.

All arms read the same encoded pages with the same line boxes: the CTC hypothesis, the model without earlier pages, with
random references in place of chosen ones, with the memory of another book, with one of random words, as it is; each of
the last five with and without the general word lists; and Tesseract. Pages are read as they are and under the three
frozen degradations (``degradations.json``). Pages of a book are consecutive and only earlier pages are ever known.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_contracts.errors import ConfigError
from flows.bench.accuracy_scores import (
    PageErrors,
    character_error_rate,
    compare,
    errors_by_kind,
    passes_per_line,
    rare_misread,
    score_page,
    set_apart,
    word_errors,
    words_in,
)
from flows.bench.degradation import AS_IS, load_degradations
from flows.bench.readers import find_books

if TYPE_CHECKING:
    from data_contracts.config import ReadingConfig
    from flows.bench.accuracy_controls import Arm
    from models.compact.decode.verify import Reading
    from models.compact.reader import CompactModel
    from models.sr_swa.pages import EncodedPage

OURS, CTC, NONE, RANDOM, TESSERACT = "ours", "ctc", "no_references", "random_references", "tesseract"
OTHER_BOOK, RANDOM_WORDS = "another_books_memory", "random_words"
WITHOUT_LIST = "_without_list"
"""Ends the names of arms in which no general word list is known."""
MEMORY_ARMS = (OURS, NONE, RANDOM, OTHER_BOOK, RANDOM_WORDS)
READERS = (*MEMORY_ARMS, *(arm + WITHOUT_LIST for arm in MEMORY_ARMS), CTC, TESSERACT)
COMPARISONS = (
    (CTC, OURS),
    (NONE, OURS),
    (RANDOM, OURS),
    (CTC, OURS + WITHOUT_LIST),
    (NONE + WITHOUT_LIST, OURS + WITHOUT_LIST),
    (NONE + WITHOUT_LIST, OTHER_BOOK + WITHOUT_LIST),
    (NONE + WITHOUT_LIST, RANDOM_WORDS + WITHOUT_LIST),
    (RANDOM + WITHOUT_LIST, OURS + WITHOUT_LIST),
    (TESSERACT, OURS),
)
RANDOM_SEED = 1
MUCH_WORSE, FAR_WORSE = 0.005, 0.03
"""Of a page's characters: more than the first on few pages, more than the second on none."""


@dataclass
class References:
    """How an arm's fetched references fared, over all pages."""

    fetched: int = 0
    hit: int = 0
    useful: int = 0
    """Fetched references on whose page stands, by the truth, a rare word misread on the page that was read."""

    def as_json(self) -> dict[str, Any]:
        """Return counts and ratios; null where nothing was fetched."""
        hit, useful = ((part / self.fetched if self.fetched else None) for part in (self.hit, self.useful))
        return {"fetched": self.fetched, "hit_ratio": hit, "recall": useful}


@dataclass
class Measured:
    """All that was measured: pages, and by arm its references."""

    pages: list[PageErrors] = field(default_factory=list)
    references: dict[str, References] = field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tomeflow bench accuracy``."""
    add = parser.add_argument
    what = "folder of books, each with pages.tsv, its PDF and page_NNNN.gt.txt"
    add("dataset", type=Path, metavar="DATASET", help=what)
    add("--books", type=_names, metavar="A,B", help="books, or the beginnings of their names (default: all)")
    add("--pages-per-book", type=int, metavar="N", help="consecutive pages from the middle of each book (default: all)")
    add("--degradations", type=_names, metavar="A,B", help=f"of {AS_IS}, A, B, C (default: all)")
    add("--cache", type=Path, metavar="DIR", help="where encoded pages are kept (default: a temporary folder)")
    add("--no-tesseract", action="store_true", help="leave Tesseract out")
    add("--json", action="store_true", help="print one JSON object and nothing else on standard output")


def main(arguments: Sequence[str] | argparse.Namespace) -> int:
    """Run ``tomeflow bench accuracy`` and return the exit code; progress goes to standard error.

    Raises:
        ConfigError: the data, a book or a degradation is not there.
        ModelUnavailable: the compact model cannot be loaded, or Tesseract failed.
    """
    options = arguments if isinstance(arguments, argparse.Namespace) else _parsed(arguments)
    books = find_books(options.dataset, options.books)
    degradations = choose_degradations(options.degradations)
    if options.pages_per_book is not None and options.pages_per_book < 1:
        raise ConfigError(f"--pages-per-book is {options.pages_per_book}: at least 1 page is read")
    with tempfile.TemporaryDirectory() as folder:
        cache = options.cache or Path(folder)
        measured = measure(books, degradations, options.pages_per_book, cache, tesseract=not options.no_tesseract)
    report = as_report(measured)
    print(json.dumps(report) if options.json else as_text(report))
    return 0


def choose_degradations(wanted: Sequence[str] | None) -> list[str]:
    """Return the names of ``wanted`` degradations, all by default; the page as it is is one of them.

    Raises:
        ConfigError: a name is unknown.
    """
    known = [AS_IS, *load_degradations()]
    if unknown := [name for name in wanted or () if name not in known]:
        raise ConfigError(f"no degradation {', '.join(unknown)}; there are {', '.join(known)}.")
    return [name for name in known if wanted is None or name in wanted]


@dataclass(frozen=True)
class BookPages:
    """The consecutive pages of one book under one degradation, encoded and verified once for all arms.

    ``seed`` draws the words of chance, ``foreign`` are another book's pages, ``words`` the truth's by page number.
    """

    seed: str
    reading: ReadingConfig
    pages: Sequence[EncodedPage]
    foreign: Sequence[EncodedPage]
    verified: Mapping[int, Sequence[Reading]]
    words: Mapping[int, set[str]]


def measure(
    books: Iterable[Path], degradations: Sequence[str], pages_per_book: int | None, cache: Path, *, tesseract: bool
) -> Measured:
    """Read the pages of all ``books`` in all arms."""
    from data_contracts.config import CompactConfig, ReadingConfig
    from flows.bench.accuracy_pages import EncodedPages, another_book, consecutive
    from flows.evaluate import read_truth
    from models.compact.reader import CompactModel

    reading = ReadingConfig()
    models = {"": CompactModel(reading.compact), WITHOUT_LIST: CompactModel(CompactConfig(word_lists=False))}
    measured = Measured()
    books = list(books)
    encoded = {book.name: EncodedPages(book, cache, models[""], reading) for book in books}
    truths = {book.name: read_truth(book, page_count=0) for book in books}
    numbers = {name: consecutive(sorted(texts), pages_per_book) for name, texts in truths.items()}
    for name in encoded:
        words = {number: words_in(truth) for number, truth in truths[name].items()}
        other = another_book(name, list(encoded))
        for degradation in degradations:
            print(f"{name} {degradation}: {len(numbers[name])} pages", file=sys.stderr, flush=True)
            pages = [encoded[name].encoded(number, degradation) for number in numbers[name]]
            foreign = [encoded[other].encoded(number, degradation) for number in numbers[other]] if other else []
            verified = {page.page_number: models[""].verify(page) for page in pages}
            book = BookPages(f"{name} {degradation}", reading, pages, foreign, verified, words)
            readings = _read_all(book, models, measured)
            if tesseract:
                readings[TESSERACT] = {n: encoded[name].tesseract_text(n, degradation) for n in numbers[name]}
            for number in numbers[name]:
                texts = {reader: read.get(number) for reader, read in readings.items()}
                scored = score_page(name, degradation, number, truths[name][number], texts)
                measured.pages.append(replace(scored, passes=[line.passes for line in verified[number]]))
    return measured


def _read_all(
    book: BookPages, models: Mapping[str, CompactModel], measured: Measured
) -> dict[str, dict[int, str | None]]:
    """Return the texts of ``book`` by reader and page number; ``models`` by how the reader's name ends."""
    from flows.bench.accuracy_controls import Arm, lend, random_words

    model = models[""]
    lent = {RANDOM_WORDS: random_words(book.pages, model.characters, book.seed)}
    if book.foreign:
        lent[OTHER_BOOK] = lend(book.pages, book.foreign)
    readings: dict[str, dict[int, str | None]] = {
        CTC: {page.page_number: model.hypothesis_text(page) for page in book.pages}
    }
    for arm in MEMORY_ARMS:
        for suffix, own in models.items():
            if arm != OTHER_BOOK or book.foreign:
                reader = Arm(own, book.verified, lent.get(arm))
                counts = measured.references.setdefault(arm + suffix, References())
                readings[arm + suffix] = _read(arm, book, reader, counts)
    return readings


def _read(arm: str, book: BookPages, model: Arm, counts: References) -> dict[int, str | None]:
    """Return the texts of ``book`` read in ``arm``; its references are added to ``counts``."""
    from flows.bench.accuracy_controls import noting
    from models.sr_swa.continuous import ContinuousDecoder
    from models.sr_swa.memory.store import SparseReferenceStore, random_selection

    config = book.reading.sr_swa
    if arm == NONE:
        config = config.model_copy(update={"window_pages": 1, "top_k": 0, "reference_pages": 0})
    select = random_selection(RANDOM_SEED) if arm == RANDOM else SparseReferenceStore.select_relevant
    fetched: dict[int, list[int]] = {}
    decoder = ContinuousDecoder(model, config, select=noting(select, fetched))
    texts: dict[int, str | None] = {}
    for page in book.pages:
        fetched[0] = []
        result = next(iter(decoder.decode([page])))
        texts[page.page_number] = result.text
        counts.fetched += result.metrics.references_fetched
        counts.hit += result.metrics.references_hit
        wanted = rare_misread(page.page_number, book.words, model.hypothesis_text(page))
        counts.useful += sum(bool(wanted & book.words[number]) for number in fetched[0])
    return texts


def as_report(measured: Measured) -> dict[str, Any]:
    """Return all figures as one JSON object; rates are shares of characters, null where nothing was read."""
    pages = measured.pages
    degraded = [page for page in pages if page.degradation != AS_IS]
    as_is = set_apart(pages, AS_IS)
    return {
        "books": {name: _block(group) for name, group in _by(pages, lambda page: page.book)},
        "languages": {name: _block(group) for name, group in _by(pages, lambda page: page.language)},
        "degradations": {name: _rates(group) for name, group in _by(pages, lambda page: page.degradation)},
        "total": _block(pages),
        "comparisons": {
            AS_IS: _comparisons(page for page in pages if page.degradation == AS_IS),
            "degraded": _comparisons(degraded),
        },
        "words": {AS_IS: word_errors(set_apart(pages, AS_IS), READERS), "degraded": word_errors(degraded, READERS)},
        "kinds": {name: errors_by_kind(group, READERS) for name, group in _by(as_is, lambda page: page.book)}
        | {name: errors_by_kind(group, READERS) for name, group in _by(as_is, lambda page: page.language)}
        | {AS_IS: errors_by_kind(as_is, READERS), "degraded": errors_by_kind(degraded, READERS)},
        "pages_made_worse": _made_worse(as_is),
        "references": {name: counts.as_json() for name, counts in measured.references.items()},
    }


def as_text(report: Mapping[str, Any]) -> str:
    """Return the report as tables for people."""
    lines = [f"{'CER':42}" + "".join(f"{name:>27}" for name in READERS)]
    blocks = {**report["degradations"], "all, as they are": report["total"]}
    for name, block in (*report["books"].items(), *blocks.items()):
        lines.append(f"{name:42}" + "".join(f"{_percent(block[_key(reader)]):>27}" for reader in READERS))
        if block.get("degraded_cer") is not None:
            rates = "".join(f"{_percent(block['degraded_' + _key(reader)]):>27}" for reader in READERS)
            lines.append(f"{'    degraded':42}{rates}")
    for kind, comparisons in report["comparisons"].items():
        for each in comparisons:
            lines.append(
                f"{kind}: {each['before']} -> {each['after']}: {each['change']:+.3%} "
                f"[{each['change_low']:+.3%}, {each['change_high']:+.3%}], p {each['p']:.3f}, "
                f"{each['pages_better']} pages better, {each['pages_worse']} worse"
            )
    for kind, words in report["words"].items():
        for name, counts in words.items():
            figures = ", ".join(f"{reader} {counts[reader]}" for reader in READERS)
            lines.append(f"{kind}: {name} words, of {counts['words']}, misread: {figures}")
    lines += [
        f"{name}: {kind}, of {counts['all']}, wrong: "
        + ", ".join(f"{reader} {counts[reader]}" for reader in READERS if counts[reader] is not None)
        for name, kinds in report["kinds"].items()
        for kind, counts in kinds.items()
        if counts["all"]
    ]
    for name, counts in report["references"].items():
        ratios = f"{_percent(counts['hit_ratio'])} hit, {_percent(counts['recall'])} useful"
        lines.append(f"references of {name}: {counts['fetched']} fetched, {ratios}")
    return "\n".join(lines)


def _block(pages: Sequence[PageErrors]) -> dict[str, Any]:
    """Return the rates of pages as they are, those of all degraded pages as ``degraded_...``, and passes a line."""
    degraded = _rates(page for page in pages if page.degradation != AS_IS)
    return {
        **_rates(set_apart(pages, AS_IS)),
        **{f"degraded_{key}": rate for key, rate in degraded.items()},
        "passes_per_line": passes_per_line(pages),
    }


def _rates(pages: Iterable[PageErrors]) -> dict[str, float | None]:
    pages = list(pages)
    return {_key(reader): character_error_rate(pages, reader) for reader in READERS}


def _key(reader: str) -> str:
    """Return a reader's key: ``cer`` for ours, else ``<reader>_cer``."""
    arm = reader.removesuffix(WITHOUT_LIST)
    return ("cer" if arm == OURS else f"{arm}_cer") + (WITHOUT_LIST if reader != arm else "")


def _comparisons(pages: Iterable[PageErrors]) -> list[dict[str, Any]]:
    pages = list(pages)
    return [found for pair in COMPARISONS if (found := compare(pages, *pair)) is not None]


def _made_worse(pages: Sequence[PageErrors]) -> dict[str, Any]:
    """Return the shares of pages on which ours is worse than the hypothesis by more than 0.5 and 3 points."""
    worse = [(page.errors[OURS] - page.errors[CTC]) / max(1, page.characters) for page in pages]
    much, far = (sum(each > bound for each in worse) for bound in (MUCH_WORSE, FAR_WORSE))
    return {"pages": len(worse), "by_half_a_point": much, "by_three_points": far, "worst": max(worse, default=None)}


def _by(pages: Iterable[PageErrors], key: Callable[[PageErrors], str]) -> Iterable[tuple[str, list[PageErrors]]]:
    groups: dict[str, list[PageErrors]] = {}
    for page in pages:
        groups.setdefault(key(page), []).append(page)
    return groups.items()


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.2%}"


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tomeflow bench accuracy", description="Accuracy of the compact model with and without its memory."
    )
    add_arguments(parser)
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]
