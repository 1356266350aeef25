"""Error rates of several readers of the same pages, and whether they differ: micro-averages and paired bootstrap.

Knows nothing of models or images. Text is normalised as everywhere (``data_contracts/text.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from data_contracts.quality.error_kinds import Kind, count_errors, count_kinds
from data_contracts.text import edit_distance, normalise, normalise_pair, words_like

RESAMPLES = 2000
SEED = 1
INTERVAL = (2.5, 97.5)
"""Percentiles of a 95 % interval."""
LEAST_LETTERS = 4
"""Shorter words are no names and repeat by themselves."""
RARE_TIMES = 8
"""A word that a book has at most so often in the pages read is rare."""


@dataclass(frozen=True)
class PageErrors:
    """What each reader, by name, made of one page: ``errors`` [characters], ``missed`` truth words.

    ``kinds``: the errors by kind of character, ``wrong_words`` the word errors; ``kinds_of_truth`` and ``words``: how
    many there are.
    ``word_places`` are the truth's words of four letters or more, case-folded, in order; ``missed`` says which of them.
    """

    book: str
    degradation: str
    page_number: int
    characters: int
    errors: Mapping[str, int]
    word_places: Sequence[str]
    missed: Mapping[str, frozenset[int]]
    passes: Sequence[int] = ()
    """Of the decoder, by line."""
    kinds: Mapping[str, Mapping[Kind, int]] = field(default_factory=dict)
    kinds_of_truth: Mapping[Kind, int] = field(default_factory=dict)
    wrong_words: Mapping[str, int] = field(default_factory=dict)
    words: int = 0

    @property
    def language(self) -> str:
        """The first letters of the book's name."""
        return self.book.partition("_")[0]


def score_page(
    book: str, degradation: str, page_number: int, truth: str, readings: Mapping[str, str | None]
) -> PageErrors:
    """Return the errors of ``readings`` by reader; a reader whose reading is None was absent."""
    errors: dict[str, int] = {}
    missed: dict[str, frozenset[int]] = {}
    kinds: dict[str, Counter[Kind]] = {}
    wrong_words: dict[str, int] = {}
    wanted, words = "", list[str]()
    for reader, reading in readings.items():
        if reading is None:
            continue
        wanted, found = normalise_pair(truth, reading)
        words = _words(wanted)
        errors[reader] = edit_distance(wanted, found)
        kinds[reader] = count_errors(wanted, found)
        wrong_words[reader] = edit_distance(words_like(wanted, wanted), words_like(wanted, found))
        missed[reader] = _missed(words, _words(found))
    places = [index for index, word in enumerate(words) if len(word) >= LEAST_LETTERS]
    return PageErrors(
        book=book,
        degradation=degradation,
        page_number=page_number,
        characters=len(wanted),
        errors=errors,
        kinds=kinds,
        kinds_of_truth=count_kinds(wanted),
        wrong_words=wrong_words,
        words=len(words_like(wanted, wanted)),
        word_places=[words[index] for index in places],
        missed={
            reader: frozenset(place for place, index in enumerate(places) if index in wrong)
            for reader, wrong in missed.items()
        },
    )


def character_error_rate(pages: Iterable[PageErrors], reader: str) -> float | None:
    """Return all errors over all characters; None where the reader was absent from a page, or without pages."""
    pages = list(pages)
    characters = sum(page.characters for page in pages)
    if not characters or any(reader not in page.errors for page in pages):
        return None
    return sum(page.errors[reader] for page in pages) / characters


def errors_by_kind(pages: Iterable[PageErrors], readers: Collection[str]) -> dict[str, dict[str, int | None]]:
    """Return kind -> how many of it there are (``all``) and how many errors each reader makes on it; ``words`` too.

    A reader that was absent from a page has None.
    """
    pages = list(pages)
    present = {reader: all(reader in page.errors for page in pages) for reader in readers}
    counts: dict[str, dict[str, int | None]] = {}
    for kind in Kind:
        errors = {r: sum(page.kinds[r][kind] for page in pages) if present[r] else None for r in readers}
        counts[kind.value] = {"all": sum(page.kinds_of_truth.get(kind, 0) for page in pages), **errors}
    wrong = {r: sum(page.wrong_words[r] for page in pages) if present[r] else None for r in readers}
    counts["words"] = {"all": sum(page.words for page in pages), **wrong}
    return counts


def passes_per_line(pages: Iterable[PageErrors]) -> float | None:
    """Return the decoder's passes over all lines; None without lines."""
    passes = [each for page in pages for each in page.passes]
    return sum(passes) / len(passes) if passes else None


def compare(pages: Iterable[PageErrors], before: str, after: str) -> dict[str, Any] | None:
    """Return how ``after`` differs from ``before``: the change of the rate with its 95 % interval and its p.

    Pages are drawn with replacement, the same for both. ``p`` is the share of draws, doubled, in which the change has
    the other sign or none. Negative: ``after`` is better.
    """
    pages = [page for page in pages if before in page.errors and after in page.errors]
    if not pages or not sum(page.characters for page in pages):
        return None
    table = np.array([(page.errors[before], page.errors[after], page.characters) for page in pages], np.float64)
    draws = np.random.default_rng(SEED).integers(0, len(pages), (RESAMPLES, len(pages)))
    sums = table[draws].sum(axis=1)
    changes = (sums[:, 1] - sums[:, 0]) / np.maximum(sums[:, 2], 1)
    total = table.sum(axis=0)
    change = (total[1] - total[0]) / total[2]
    against = float(np.mean(changes >= 0 if change < 0 else changes <= 0))
    low, high = np.percentile(changes, INTERVAL).tolist()
    return {
        "before": before,
        "after": after,
        "change": change,
        "change_low": low,
        "change_high": high,
        "errors_ratio": total[1] / total[0] if total[0] else None,
        "p": min(1.0, 2 * against),
        "pages_better": int((table[:, 1] < table[:, 0]).sum()),
        "pages_worse": int((table[:, 1] > table[:, 0]).sum()),
    }


def word_errors(pages: Iterable[PageErrors], readers: Collection[str]) -> dict[str, Any]:
    """Return how many words of four letters or more each reader misread: first occurrences, repeats, rare repeats.

    A repeat stands, by the truth, on an earlier one of the pages read; book and degradation by themselves.
    """
    counts = {kind: Counter[str]() for kind in ("first", "repeated", "repeated_rare")}
    for group in _grouped(pages, lambda page: (page.book, page.degradation)):
        times = Counter(word for page in group for word in page.word_places)
        seen: set[str] = set()
        for page in sorted(group, key=lambda page: page.page_number):
            for place, word in enumerate(page.word_places):
                kinds = ["repeated", "repeated_rare"][: 1 + (times[word] <= RARE_TIMES)] if word in seen else ["first"]
                for kind in kinds:
                    counts[kind]["words"] += 1
                    counts[kind].update(reader for reader in readers if place in page.missed.get(reader, ()))
            seen.update(page.word_places)
    return {kind: {"words": count["words"], **{r: count[r] for r in readers}} for kind, count in counts.items()}


def words_in(text: str) -> set[str]:
    """Return the words of ``text``, normalised and case-folded, without punctuation."""
    return set(_words(normalise(text)))


def rare_misread(page_number: int, words: Mapping[int, set[str]], hypothesis: str) -> set[str]:
    """Return the words of four letters or more, on few pages of the book, that the hypothesis of a page does not have.

    ``words`` are the truth's by page number.
    """
    missing = {word for word in words[page_number] - words_in(hypothesis) if len(word) >= LEAST_LETTERS}
    return {word for word in missing if sum(word in others for others in words.values()) <= RARE_TIMES}


def set_apart(pages: Iterable[PageErrors], degradation: str) -> list[PageErrors]:
    """Return the pages under one degradation."""
    return [page for page in pages if page.degradation == degradation]


def _grouped(pages: Iterable[PageErrors], key: Callable[[PageErrors], Any]) -> list[list[PageErrors]]:
    groups: dict[Any, list[PageErrors]] = {}
    for page in pages:
        groups.setdefault(key(page), []).append(page)
    return list(groups.values())


def _words(text: str) -> list[str]:
    return [word for part in text.casefold().split() if (word := "".join(filter(str.isalnum, part)))]


def _missed(wanted: Sequence[str], found: Sequence[str]) -> frozenset[int]:
    """Return the indices of ``wanted`` words that the best alignment finds no equal for."""
    wrong: set[int] = set()
    for step in Levenshtein.opcodes(wanted, found):
        if step.tag != "equal":
            wrong.update(range(step.src_start, step.src_end))
    return frozenset(wrong)
