"""Measures the decoder on generated documents that share no text, font or name with training.

``python -m models.training.evaluate [--weights FILE]``: character error rate of hypothesis and decoder by language
and by severity, without memory, with the document's own, with another document's; passes and time a line. The
settings of ``VerifierThresholds`` are fitted here, on the even documents, and reported on the odd ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from rapidfuzz.distance import Levenshtein

from data_contracts.quality.error_kinds import Kind, count_errors
from models.compact.decode.decoder import CompactDecoder, FrozenHead, load_weights
from models.compact.decode.verify import Reading, Verifier, VerifierThresholds
from models.compact.decode.word_memory import WordTokens
from models.compact.onnx_weights import open_recognizer
from models.training.batches import Memory, memory_of
from models.training.drawing import shards
from models.training.train import Training

MemoryKind = Literal["none", "own", "other"]
SEVERITIES = ((0.0, 0.33, "light"), (0.33, 0.66, "medium"), (0.66, 1.01, "heavy"))
MARGINS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
END_MARGINS = (1.0, 3.0, 5.0)
SURE_ABOVE = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
CARE = {"sure_digit": (0.4, 0.5, 0.7, 0.9), "sure_mark": (0.5, 0.7, 0.9, 0.97), "pay": (0.0, 0.1, 0.25, 0.5)}
"""What keeps figures and marks as the hypothesis has them; the values tried, in this order."""


@dataclass
class Count:
    """Errors and characters of a group of lines, with the hypothesis's beside the decoder's."""

    characters: int = 0
    hypothesis_errors: int = 0
    errors: int = 0
    lines: int = 0
    decoded: int = 0
    passes: int = 0
    worse_lines: int = 0
    better_lines: int = 0
    hypothesis_kinds: Counter[Kind] = field(default_factory=Counter)
    kinds: Counter[Kind] = field(default_factory=Counter)

    def add(self, truth: str, hypothesis: str, reading: str, passes: int) -> None:
        """Count one line."""
        before, after = Levenshtein.distance(truth, hypothesis), Levenshtein.distance(truth, reading)
        self.characters += len(truth)
        self.hypothesis_errors += before
        self.errors += after
        self.lines += 1
        self.decoded += passes > 0
        self.passes += passes
        self.worse_lines += after > before
        self.better_lines += after < before
        self.hypothesis_kinds += count_errors(truth, hypothesis)
        self.kinds += count_errors(truth, reading)

    @property
    def spoilt(self) -> int:
        """How many figures and marks more are wrong than in the hypothesis, each kind by itself."""
        return sum(max(0, self.kinds[kind] - self.hypothesis_kinds[kind]) for kind in (Kind.DIGITS, Kind.PUNCTUATION))

    @property
    def as_json(self) -> dict[str, Any]:
        """Rates and counts."""
        size = max(1, self.characters)
        return {
            "lines": self.lines,
            "characters": self.characters,
            "hypothesis_cer": round(self.hypothesis_errors / size, 5),
            "cer": round(self.errors / size, 5),
            "hypothesis_errors": self.hypothesis_errors,
            "errors": self.errors,
            "hypothesis_errors_by_kind": dict(self.hypothesis_kinds),
            "errors_by_kind": dict(self.kinds),
            "better_lines": self.better_lines,
            "worse_lines": self.worse_lines,
            "decoded_ratio": round(self.decoded / max(1, self.lines), 3),
            "passes_per_decoded_line": round(self.passes / max(1, self.decoded), 2),
        }


class Bench:
    """Reads held-out documents with one decoder."""

    def __init__(self, model: CompactDecoder, characters: Sequence[str]) -> None:
        """Keep what all readings need."""
        self.model, self.characters = model, characters

    def text(self, ids: Iterable[int]) -> str:
        """Return the characters of ``ids``."""
        return "".join(self.characters[int(index)] for index in ids)

    def read(
        self,
        document: shards.Document,
        thresholds: VerifierThresholds,
        memory: Memory | None = None,
        *,
        own: bool = True,
    ) -> list[tuple[shards.Sample, Reading]]:
        """Return the readings of all lines, with the words of ``memory``: of earlier pages if ``own``, else all."""
        verifier = Verifier(self.model, self.characters, thresholds)
        read: list[tuple[shards.Sample, Reading]] = []
        before: Sequence[int] = ()
        for page in sorted({sample.page for sample in document.samples}):
            samples = [sample for sample in document.samples if sample.page == page]
            words = self._words(memory, page if own else None) if memory else None
            readings = verifier.read_lines([sample.line for sample in samples], before, words)
            read += zip(samples, readings, strict=True)
            before = readings[-1].ids.tolist()
        return read

    def _words(self, memory: Memory, page: int | None) -> WordTokens | None:
        seen = memory.pages < page if page is not None else torch.ones_like(memory.pages, dtype=torch.bool)
        if not seen.any():
            return None
        with torch.inference_mode():
            return self.model.memory.tokens(memory.pictures[seen], memory.payload[seen])

    def count(
        self, documents: Sequence[shards.Document], thresholds: VerifierThresholds, kind: MemoryKind = "none"
    ) -> dict[str, Count]:
        """Return counts by "language", "language severity" and "all", over lines that a person could read."""
        counts: dict[str, Count] = defaultdict(Count)
        for at, document in enumerate(documents):
            source = document if kind == "own" else documents[(at + 1) % len(documents)]
            memory = memory_of(source) if kind != "none" else None
            for sample, reading in self.read(document, thresholds, memory, own=kind == "own"):
                if not sample.usable:
                    continue
                truth = self.text(sample.target_ids)
                severity = next(name for low, high, name in SEVERITIES if low <= sample.severity < high)
                for group in ("all", document.language, f"{document.language} {severity}", sample.kind):
                    counts[group].add(truth, self.text(sample.line.ctc_ids), self.text(reading.ids), reading.passes)
        return counts


def fit(bench: Bench, documents: Sequence[shards.Document]) -> VerifierThresholds:
    """Return the thresholds with the fewest errors on ``documents``; of equals, the most cautious.

    What keeps figures and marks is chosen first by how few of them it spoils.
    """
    best, thresholds = None, VerifierThresholds(sure_above=1.01)
    for end_margin in END_MARGINS:
        for margin in MARGINS:
            trial = replace(thresholds, margin=margin, end_margin=max(margin, end_margin))
            errors = bench.count(documents, trial)["all"].errors
            if best is None or (errors, -margin) < best[0]:
                best = ((errors, -margin), trial)
    assert best is not None
    thresholds = best[1]
    for name, values in CARE.items():
        trials = [replace(thresholds, **{name: value}) for value in values]  # type: ignore[arg-type]
        counts = [bench.count(documents, trial)["all"] for trial in trials]
        ranks = [(count.spoilt, count.errors) for count in counts]
        thresholds = trials[ranks.index(min(ranks))]
    everything = bench.count(documents, thresholds)["all"].errors
    for sure_above in SURE_ABOVE:
        trial = replace(thresholds, sure_above=sure_above)
        if bench.count(documents, trial)["all"].errors <= everything * 1.01:
            return trial
    return thresholds


def milliseconds_a_line(bench: Bench, documents: Sequence[shards.Document], thresholds: VerifierThresholds) -> float:
    """Return the wall time of decoding [ms] a line, all lines counted."""
    started, lines = time.perf_counter(), 0
    for document in documents:
        lines += len(bench.read(document, thresholds))
    return 1000 * (time.perf_counter() - started) / max(1, lines)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path(".cache/train"))
    parser.add_argument("--weights", type=Path, help="default: the averaged weights of the checkpoint")
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--fit", action="store_true", help="fit the thresholds on the even documents first")
    options = parser.parse_args()
    torch.set_num_threads(1)
    head = FrozenHead.load()
    bench = Bench(_model(options.weights, options.cache, head), open_recognizer(1).characters)
    files = sorted((options.cache / "held_out").glob("*.safetensors"))[: options.documents]
    documents = [shards.load(path) for path in files]
    thresholds = fit(bench, documents[::2]) if options.fit else VerifierThresholds()
    print(thresholds)
    measured = documents[1::2]
    for kind in ("none", "own", "other"):
        counts = bench.count(measured, thresholds, kind)
        print(json.dumps({"memory": kind} | {name: counts[name].as_json for name in sorted(counts)}, indent=1))
    print(f"{milliseconds_a_line(bench, measured, thresholds):.1f} ms a line")


def _model(weights: Path | None, cache: Path, head: FrozenHead) -> CompactDecoder:
    if weights:
        return load_weights(weights, hashlib.sha256(weights.read_bytes()).hexdigest(), head)
    training = Training(head, 1)
    training.restore(cache / "checkpoint.pt")
    return training.average


if __name__ == "__main__":
    main()
