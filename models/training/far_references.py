"""Reads the book of ``long_book.py`` with different references: ``python -m ... --cache DIR``.

All arms read the same pages, verified once, in step: without references, with random ones, with those that another
word's picture asks for, with ours, and with an oracle that takes, of what the store holds, pages with the true word.
Counted are errors of characters, and misread words that stand in no general list and were last seen on a page that has
left the widest window. Figures go to ``far_references.jsonl``, a page a line; ``--report`` sums them up.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from data_contracts.config import ReadingConfig
from data_contracts.text import edit_distance, normalise_pair
from models.compact.decode.verify import Reading
from models.compact.reader import CompactModel
from models.compact.recognise.typography import as_printed
from models.compact.words.hypothesis_words import page_words
from models.compact.words.word_list import load_word_lists
from models.compact.words.word_tokens import word_picture
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.memory.store import Reference, Selector, SparseReferenceStore, random_selection
from models.sr_swa.pages import Decoding, EncodedPage
from models.training.calibrate import LINE_STEP_PX, stacked_page
from models.training.drawing import shards
from models.training.drawing.generate import CACHE
from models.training.fit_rescoring import key_of, text_of, truth_of

NONE, RANDOM, SHUFFLED, OURS, ORACLE = "none", "random", "shuffled", "ours", "oracle"
ARMS = (NONE, RANDOM, SHUFFLED, OURS, ORACLE)
LEAST_LETTERS = 5
EARLY_PAGES, LATE_PAGES = (20, 120), 100
RESAMPLES, SEED = 2000, 1


class Arm:
    """``model`` on pages that are verified already."""

    def __init__(self, model: CompactModel, readings: Mapping[int, Sequence[Reading]]) -> None:
        """Read with ``model``."""
        self.fingerprint, self.geometry, self.prefill = model.fingerprint, model.geometry, model.prefill
        self._model, self._readings = model, readings

    def encode_visual(self, image: Any) -> EncodedPage:
        """Refuse: there are no images."""
        raise NotImplementedError

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Write ``page``."""
        return self._model.write(page, self._readings[page.page_number], context)


class Truth:
    """What the word behind each query on the page being read is, for the oracle and to count right fetches."""

    def __init__(self, model: CompactModel) -> None:
        """Know nothing yet."""
        self._model, self._words = model, dict[bytes, str]()

    def learn(self, samples: Sequence[shards.Sample], readings: Sequence[Reading]) -> None:
        """Take a page, as verified."""
        self._words.clear()
        written = [reading.as_line(sample.line) for sample, reading in zip(samples, readings, strict=True)]
        lines = as_printed(written, self._model.characters)
        for sample, line, words in zip(samples, lines, page_words(lines, self._model.characters), strict=True):
            for word in words:
                picture = word_picture(line, word).astype(np.float16).tobytes()
                self._words[picture] = key_of(truth_of(sample, word, self._model.characters))

    def pages(self, store: SparseReferenceStore, query: Any) -> tuple[str, list[Reference]]:
        """Return the true word behind ``query`` and the references that hold it."""
        word = self._words.get(query.numpy().tobytes(), "")
        held = [store[number] for number in store.page_numbers]
        return word, [each for each in held if word and word in self._spelt(each)]

    def _spelt(self, reference: Reference) -> set[str]:
        return {key_of(text_of(ids[ids > 0], self._model.characters)) for ids in reference.payload["char_ids"].numpy()}


def selectors(truth: Truth, far: set[str], count: Counter[str]) -> dict[str, Selector]:
    """Return how each arm chooses; ``count`` counts how often the word asked for is ``far``, held, and fetched."""
    last: list[Any] = []

    def shuffled(store: SparseReferenceStore, query: Any, top_k: int) -> Sequence[Reference]:
        last.append(query)
        return store.select_relevant(last.pop(0) if len(last) > 1 else query, top_k)

    def counted(arm: str, select: Selector) -> Selector:
        def choose(store: SparseReferenceStore, query: Any, top_k: int) -> Sequence[Reference]:
            word, right = truth.pages(store, query)
            chosen = right[-top_k:] if arm == ORACLE else select(store, query, top_k)
            if word in far:
                count[f"{arm}_asked"] += 1
                count[f"{arm}_held"] += bool(right)
                count[f"{arm}_fetched"] += any(each in right for each in chosen)
            return chosen

        return choose

    ours = SparseReferenceStore.select_relevant
    return {arm: counted(arm, {RANDOM: random_selection(SEED), SHUFFLED: shuffled}.get(arm, ours)) for arm in ARMS}


def read_book(folder: Path, pages: int, arms: Sequence[str] = ARMS) -> Iterator[dict[str, Any]]:
    """Yield the counts of each page."""
    reading = ReadingConfig()
    model = CompactModel(reading.compact)
    readings: dict[int, Sequence[Reading]] = {}
    truth, far, count = Truth(model), set[str](), Counter[str]()
    listed = [each.words for each in load_word_lists()]
    select = selectors(truth, far, count)
    none = reading.sr_swa.model_copy(update={"top_k": 0, "reference_pages": 0})
    decoders = {
        arm: ContinuousDecoder(Arm(model, readings), none if arm == NONE else reading.sr_swa, select=select[arm])
        for arm in arms
    }
    seen: dict[str, int] = {}
    for number, samples in enumerate(_pages(folder), start=1):
        page = stacked_page(number, [sample.line for sample in samples])
        readings.clear()
        readings[number] = model.verify(page)
        truth.learn(samples, readings[number])
        texts = [text_of(sample.target_ids, model.characters) if sample.usable else "" for sample in samples]
        words = {key_of(word) for text in texts for word in text.split()}
        gap = reading.sr_swa.max_window_pages
        far.clear()
        far.update(
            word
            for word in words
            if len(word) >= LEAST_LETTERS
            and number - seen.get(word, number) > gap
            and not any(word in w for w in listed)
        )
        count.clear()
        read = {"hypothesis": [text_of(sample.line.ctc_ids, model.characters) for sample in samples]}
        read["decoder"] = [text_of(each.ids, model.characters) for each in readings[number]]
        for arm, decoder in decoders.items():
            result = next(iter(decoder.decode([page])))
            lines = {round(line.box.top / LINE_STEP_PX): line.text for line in result.lines}
            read[arm] = [lines.get(index, "") for index in range(len(samples))]
        scores = {arm: _score(texts, lines, far) for arm, lines in read.items()}
        yield {
            "page": number,
            "characters": sum(map(len, texts)),
            "far_words": sum(key_of(word) in far for text in texts for word in text.split()),
            "errors": {arm: errors for arm, (errors, _) in scores.items()},
            "far_missed": {arm: missed for arm, (_, missed) in scores.items()},
            "fetches": dict(count),
        }
        seen.update(dict.fromkeys(words, number))
        if number == pages:
            return


def _pages(folder: Path) -> Iterator[list[shards.Sample]]:
    for path in sorted(folder.glob("*.safetensors")):
        samples = shards.load(path).samples
        for page in sorted({sample.page for sample in samples}):
            yield [sample for sample in samples if sample.page == page]


def _score(truths: Sequence[str], read: Sequence[str], far: set[str]) -> tuple[int, int]:
    """Return errors of characters and far words missed, over lines that a person could read."""
    errors = missed = 0
    for truth, text in zip(truths, read, strict=True):
        if truth:
            errors += edit_distance(*normalise_pair(truth, text))
            wanted, found = (list(map(key_of, each.split())) for each in (truth, text))
            wrong = {
                at
                for step in Levenshtein.opcodes(wanted, found)
                if step.tag != "equal"
                for at in range(step.src_start, step.src_end)
            }
            missed += sum(wanted[at] in far for at in wrong)
    return errors, missed


def report(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rates of all arms, of early and late pages, and differences with 95 % intervals."""

    def rate(part: Sequence[Mapping[str, Any]], arm: str) -> float:
        return float(sum(row["errors"][arm] for row in part) / max(1, sum(row["characters"] for row in part)))

    early = [row for row in rows if EARLY_PAGES[0] <= row["page"] <= EARLY_PAGES[1]]
    late = [row for row in rows[-LATE_PAGES:] if row["page"] > EARLY_PAGES[1]]
    arms = list(rows[0]["errors"])
    rng = np.random.default_rng(SEED)

    def interval(figure: Callable[..., float], *groups: Sequence[Any]) -> list[float]:
        draws = [
            figure(*([group[at] for at in rng.integers(0, len(group), len(group))] for group in groups))
            for _ in range(RESAMPLES)
        ]
        return [round(float(edge), 5) for edge in np.percentile(draws, (2.5, 97.5))]

    found: dict[str, Any] = {"pages": len(rows), "far_words": sum(row["far_words"] for row in rows)}
    found["cer"] = {arm: round(rate(rows, arm), 5) for arm in arms}
    found["far_missed"] = {arm: sum(row["far_missed"][arm] for row in rows) for arm in arms}
    found["fetches"] = dict(sum((Counter(row["fetches"]) for row in rows), Counter[str]()))
    for one in (each for each in (NONE, RANDOM, SHUFFLED) if each in arms):
        for kind in ("errors", "far_missed"):

            def difference(part: Sequence[Any], one: str = one, kind: str = kind) -> float:
                return float(sum(row[kind][OURS] - row[kind][one] for row in part))

            found[f"{kind} ours - {one}"] = [difference(rows), *interval(difference, rows)]
    if early and late:
        for arm in ("hypothesis", OURS):
            found[f"flat {arm}"] = [
                round(rate(early, arm), 5),
                round(rate(late, arm), 5),
                *interval(lambda a, b, arm=arm: rate(b, arm) - rate(a, arm), early, late),
            ]
        found["flat ours/hypothesis"] = [
            round(rate(part, OURS) / rate(part, "hypothesis"), 4) for part in (early, late)
        ] + interval(
            lambda a, b: rate(b, OURS) / rate(b, "hypothesis") - rate(a, OURS) / rate(a, "hypothesis"), early, late
        )
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS, help=f"{OURS} suffices for drift")
    parser.add_argument("--report", action="store_true", help="sum up what has been read so far")
    options = parser.parse_args()
    if OURS not in options.arms:
        parser.error(f"--arms needs {OURS}: all others are compared with it")
    rows_file = options.cache / "far_references.jsonl"
    if not options.report:
        with rows_file.open("w", encoding="utf-8") as file:
            for row in read_book(options.cache / "long_book", options.pages, options.arms):
                print(json.dumps(row), file=file, flush=True)
    rows = [json.loads(line) for line in rows_file.read_text(encoding="utf-8").splitlines()]
    print(json.dumps(report(rows), indent=1))


if __name__ == "__main__":
    main()
