"""Fits the thresholds of lexicon rescoring on generated documents of many pages: ``python -m ... --cache DIR``.

Every doubtful word of every page is rescored in the loop that reads documents, with the general list and without, and
what spoke for each text is kept; since nothing that is decided enters the memory, settings can then be compared
without reading anything again. Fitted on ``long_documents``, reported on ``long_held_out``, whose text, names and
typefaces are others.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from data_contracts.config import SrSwaConfig
from models.compact.onnx_weights import open_recognizer
from models.compact.recognise.ctc_score import CtcHead
from models.compact.recognise.text_line import hypothesis_line
from models.compact.rescore.page_memory import GEOMETRY, page_block
from models.compact.rescore.rescoring import WordRescorer
from models.compact.rescore.word_choice import Evidence, Thresholds, choose
from models.compact.words.hypothesis_words import HypothesisWord
from models.compact.words.word_list import WordList, load_word_lists
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.pages import Decoding, EncodedLine, EncodedPage
from models.training.drawing import shards

ROUNDS = 3
"""Times that all settings are gone through; the third changes next to nothing."""
GRID: dict[str, tuple[float, ...]] = {
    "picture_weight": (0.4, 0.5, 0.6, 0.7, 0.85, 1.0),
    "times_weight": (0.25, 0.5, 0.75, 1.0, 1.5),
    "listed_times": (0.25, 0.5, 1.0, 2.0),
    "unlisted_times": (0.003, 0.01, 0.03, 0.1),
    "unknown_times": (0.01, 0.03, 0.05, 0.1, 0.2, 0.4),
    "remembered_weight": (0.0, 0.5, 1.0, 1.5, 2.0),
    "letter_weight": (0.0, 0.5, 0.75, 1.0, 1.25, 1.5),
    "margin": (-0.5, 0.0, 0.25, 0.5, 1.0),
    "short_margin": (0.0, 0.5, 1.0, 1.5, 2.0),
}


@dataclass(frozen=True)
class Doubt:
    """A doubtful word. ``gains`` [texts]: how many errors fewer each text has than the hypothesis."""

    evidence: Evidence
    gains: npt.NDArray[np.int64]
    letters: int
    is_repeated: bool
    document: int


class Watched(WordRescorer):
    """A rescorer that keeps what it chose from: line, word, texts and what spoke for each."""

    def __init__(
        self, head: CtcHead, characters: Sequence[str], lists: Iterable[WordList], thresholds: Thresholds
    ) -> None:
        """Take what a rescorer takes."""
        super().__init__(head, characters, lists, thresholds)
        self.asked: list[tuple[EncodedLine, HypothesisWord, list[str], Evidence]] = []

    def choose(
        self, line: EncodedLine, word: HypothesisWord, texts: Mapping[str, str], evidence: Evidence
    ) -> tuple[int, float]:
        """Choose, and keep what there was to choose from."""
        self.asked.append((line, word, list(texts.values()), evidence))
        return super().choose(line, word, texts, evidence)


class WatchedReader:
    """The lexicon rescoring as a model whose pages come encoded."""

    fingerprint = "watched"
    geometry = GEOMETRY

    def __init__(self, rescorer: WordRescorer) -> None:
        """Read with ``rescorer``."""
        self._rescorer = rescorer

    def encode_visual(self, image: Any) -> EncodedPage:
        """Refuse: there are no images."""
        raise NotImplementedError

    def prefill(self, page: EncodedPage, context: Any) -> Any:
        """Return the page's high-confidence words."""
        return page_block(page, self._rescorer.characters)

    def decode(self, page: EncodedPage, context: Any) -> Decoding:
        """Rescore the page and write it."""
        rescored = self._rescorer.rescore_page(page.lines, context)
        self._rescorer.count_page(page.lines, context)
        written = (hypothesis_line(line, self._rescorer.characters) for line in rescored.lines)
        return Decoding(lines=tuple(line for line in written if line), window_mass=rescored.window_mass)


def doubts_of(document: shards.Document, rescorer: Watched) -> Iterator[Doubt]:
    """Yield the doubtful words of ``document``, read page by page."""
    decoder = ContinuousDecoder(WatchedReader(rescorer), SrSwaConfig())
    seen: set[str] = set()
    for number in sorted({sample.page for sample in document.samples}):
        samples = [sample for sample in document.samples if sample.page == number]
        rescorer.asked.clear()
        page = EncodedPage(number + 1, 2000, 3000, 300.0, lines=tuple(sample.line for sample in samples))
        list(decoder.decode([page]))
        by_line = {id(sample.line): sample for sample in samples}
        for line, word, texts, evidence in rescorer.asked:
            sample = by_line[id(line)]
            if sample.usable:
                truth = truth_of(sample, word, rescorer.characters)
                errors = np.array([Levenshtein.distance(truth, text) for text in texts])
                yield Doubt(evidence, errors[0] - errors, word.letters, key_of(truth) in seen, document.number)
        for sample in samples:
            seen.update(map(key_of, text_of(sample.target_ids, rescorer.characters).split()))


def truth_of(sample: shards.Sample, word: HypothesisWord, characters: Sequence[str]) -> str:
    """Return what stands between the peaks of the hypothesis's characters around ``word``."""
    first = sample.target_frames > word.first_frame if word.before else sample.target_frames >= 0
    inside = first & (sample.target_frames < word.last_frame) if word.after else first
    return text_of(sample.target_ids[inside], characters).strip()


def text_of(ids: npt.NDArray[np.int32], characters: Sequence[str]) -> str:
    """Return what class ``ids`` spell."""
    return "".join(characters[index] for index in ids)


def key_of(word: str) -> str:
    """Return ``word`` without punctuation and case."""
    return "".join(filter(str.isalnum, word)).casefold()


def gained(doubts: Iterable[Doubt], thresholds: Thresholds) -> Counter[str]:
    """Return errors saved in all, on repeated words and on first occurrences, and words changed for better or worse."""
    count: Counter[str] = Counter()
    for doubt in doubts:
        best, _ = choose(doubt.evidence, doubt.letters, thresholds)
        gain = int(doubt.gains[best])
        count["all"] += gain
        count["repeated" if doubt.is_repeated else "first"] += gain
        count["better"] += gain > 0
        count["worse"] += gain < 0
    return count


def fit(doubts: Sequence[Doubt], thresholds: Thresholds) -> Thresholds:
    """Return the settings that save most, each tried in turn; of equals, the first."""
    best = gained(doubts, thresholds)["all"]
    for _ in range(ROUNDS):
        for name, values in GRID.items():
            for value in values:
                trial = replace(thresholds, **{name: value})  # type: ignore[arg-type]
                saved = gained(doubts, trial)["all"]
                if saved > best:
                    best, thresholds = saved, trial
    return thresholds


def collect(paths: Iterable[Path], thresholds: Thresholds) -> dict[str, list[Doubt]]:
    """Return the doubts of the documents at ``paths`` "with list" and "without"."""
    head, characters = CtcHead.load(), open_recognizer(1).characters
    arms = {"with list": load_word_lists(), "without": ()}
    rescorers = {arm: Watched(head, characters, lists, thresholds) for arm, lists in arms.items()}
    found: dict[str, list[Doubt]] = {arm: [] for arm in arms}
    for path in paths:
        document = shards.load(path)
        for arm, rescorer in rescorers.items():
            found[arm] += doubts_of(document, rescorer)
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path(".cache/train"))
    options = parser.parse_args()
    now = Thresholds()
    fitted_on, measured_on = (
        collect(sorted((options.cache / f"long_{part}").glob("*.safetensors")), now)
        for part in ("documents", "held_out")
    )
    fitted = fit([doubt for doubts in fitted_on.values() for doubt in doubts], now)
    print(fitted)
    for name, thresholds in (("now", now), ("fitted", fitted)):
        for arm, doubts in measured_on.items():
            print(name, arm, dict(gained(doubts, thresholds)))


if __name__ == "__main__":
    main()
