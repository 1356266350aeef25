"""Documents with planted repetitions: does the store keep the right page, and find it?

A page is a bag of word keys: a subject of its own (``SUBJECT_WORDS`` rare words, said ``REPEATS`` times each) among
common words that all pages share; every key carries noise and the bias that keys of a trained layer have in
common. A late page repeats the subject of an early one and asks for one of its words. Knows no model: this
measures eviction and scoring alone, for benchmarks and tests. ``python -m models.sr_swa.planted`` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean

import torch

from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.memory.store import SparseReferenceStore

GEOMETRY = Geometry(layers=2, kv_heads=4, head_dim=32, page_tokens=64, rope_theta=None)
CAPACITY_PAGES, WINDOW_PAGES, REFERENCE_TOKENS, TOP_K = 64, 8, 16, 4
COMMON_WORDS, SUBJECT_WORDS, REPEATS = 400, 8, 3
NOISE = 0.5
"""Length of the noise on a key, relative to the key of a word."""
ALIKE_NOISE = 0.1
"""The same between near-duplicates: forms, title pages, running tables."""
EARLY_PAGE = 3


@dataclass(frozen=True)
class Scenario:
    """``late_page`` repeats page ``EARLY_PAGE``; all ``alike`` pages are near-duplicates of one another."""

    name: str
    late_page: int
    alike: range = range(0)
    first_in_first_out: bool = False
    shuffled: bool = False


@dataclass(frozen=True)
class Outcome:
    """Over all documents: how often the right page was among the first ``TOP_K``, and the mean cosines."""

    scenario: Scenario
    documents: int
    kept: int
    found: int
    right_cosine: float
    best_wrong_cosine: float

    @property
    def found_ratio(self) -> float:
        """Share of documents in which the right page was found."""
        return self.found / self.documents

    def __str__(self) -> str:
        """Return the figures on one line."""
        return (
            f"{self.scenario.name:48s} kept {self.kept:3d}, found {self.found:3d} of {self.documents} "
            f"({self.found_ratio:5.1%}); cosine {self.right_cosine:.3f}, best wrong page {self.best_wrong_cosine:.3f}"
        )


SCENARIOS = (
    Scenario("page 60 repeats page 3", 60),
    Scenario("page 90 repeats page 3, 20 to 60 near-duplicates", 90, alike=range(20, 61)),
    Scenario("page 90 repeats page 3, all distinct", 90),
    Scenario("the same, first in first out", 90, first_in_first_out=True),
    Scenario("page 60 repeats page 3, landmarks shuffled", 60, shuffled=True),
)


class FirstInFirstOut(SparseReferenceStore):
    """The control for eviction: what came first goes first."""

    def _least_worth_keeping(self, newcomer: torch.Tensor, page_number: int) -> int:
        del newcomer, page_number
        return min(self.page_numbers)


def measure(scenario: Scenario, documents: int, seed: int = 0) -> Outcome:
    """Store ``documents`` documents page by page, ask each for its repeated page, and count."""
    found, kept, right, wrong = 0, 0, [], []
    for document in range(documents):
        draw = torch.Generator().manual_seed(seed + document)
        store = (FirstInFirstOut if scenario.first_in_first_out else SparseReferenceStore)(
            GEOMETRY, CAPACITY_PAGES, REFERENCE_TOKENS
        )
        query = _fill(store, scenario, draw)
        cosines = store.similarities(query)
        if scenario.shuffled:
            shift = int(torch.randint(1, len(cosines), (1,), generator=draw))
            numbers = list(cosines)
            cosines = dict(zip(numbers[shift:] + numbers[:shift], cosines.values(), strict=True))
        best = sorted(cosines, key=lambda page_number: -cosines[page_number])[:TOP_K]
        found += EARLY_PAGE in best
        kept += EARLY_PAGE in store
        right += [cosines[EARLY_PAGE]] if EARLY_PAGE in store else []
        wrong.append(max(cosine for page_number, cosine in cosines.items() if page_number != EARLY_PAGE))
    return Outcome(scenario, documents, kept, found, mean(right) if right else float("nan"), mean(wrong))


def _fill(store: SparseReferenceStore, scenario: Scenario, draw: torch.Generator) -> torch.Tensor:
    """Put every page into ``store`` that has left the window before the late page; return what that one asks.

    The query [layers, kv_heads, 1, head_dim] is the key of one subject word of that page, with noise of its own: the
    decoder is unsure of this word.
    """
    words = _word_keys(draw)
    common, bias = words(COMMON_WORDS), words(1)
    alike = _page(common, words(SUBJECT_WORDS), bias, draw)
    repeated = words(SUBJECT_WORDS)
    positions = torch.arange(GEOMETRY.page_tokens)
    for page_number in range(1, scenario.late_page - WINDOW_PAGES + 1):
        if page_number in scenario.alike:
            keys = alike + ALIKE_NOISE * words(GEOMETRY.page_tokens)
        else:
            subject = repeated if page_number == EARLY_PAGE else words(SUBJECT_WORDS)
            keys = _page(common, subject, bias, draw)
        mass = torch.rand(GEOMETRY.page_tokens, generator=draw)
        store.compress_and_store(KVBlock(page_number, keys, keys, positions), mass)
    return repeated[:, :, :1] + bias + NOISE * words(1)


def _word_keys(draw: torch.Generator) -> Callable[[int], torch.Tensor]:
    """Return a source of random word keys [layers, kv_heads, words, head_dim], each of length 1 on average."""
    shape = (GEOMETRY.layers, GEOMETRY.kv_heads)

    def words(count: int) -> torch.Tensor:
        drawn: torch.Tensor = torch.randn(*shape, count, GEOMETRY.head_dim, generator=draw) / GEOMETRY.head_dim**0.5
        return drawn

    return words


def _page(common: torch.Tensor, subject: torch.Tensor, bias: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """Return the keys of a page [layers, kv_heads, page_tokens, head_dim] in random order."""
    said = subject.repeat(1, 1, REPEATS, 1)
    picked = torch.randint(COMMON_WORDS, (GEOMETRY.page_tokens - said.shape[2],), generator=draw)
    noise = NOISE * _word_keys(draw)(GEOMETRY.page_tokens)
    keys: torch.Tensor = torch.cat((said, common[:, :, picked]), dim=2) + bias + noise
    return keys[:, :, torch.randperm(GEOMETRY.page_tokens, generator=draw)]


def outcomes(documents: int = 100) -> Iterator[Outcome]:
    """Measure every scenario."""
    return (measure(scenario, documents) for scenario in SCENARIOS)


if __name__ == "__main__":
    for outcome in outcomes():
        print(outcome)
