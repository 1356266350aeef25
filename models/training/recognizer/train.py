"""Trains a recogniser for Latin print on real and drawn lines: ``python -m models.training.recognizer.train``.

Stops after ``--minutes`` or at the last step and goes on from its checkpoint when started again: weights, averaged
weights, optimiser, step and random state. What is measured are the books that are held out, by script.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
import torch.nn.functional as F  # noqa: N812
from rapidfuzz.distance import Levenshtein

from models.compact.onnx_weights import BLANK_CLASS
from models.compact.recognise.recognizer import to_input
from models.training.drawing.draw import draw_document
from models.training.drawing.leaks import read_leaks
from models.training.drawing.old_spelling import Language
from models.training.drawing.text import Corpus
from models.training.recognizer.alphabet import Alphabet, latin_alphabet
from models.training.recognizer.network import OnnxNetwork, head_names, with_head
from models.training.recognizer.real_lines import Image, RealLine, read_lines
from models.training.recognizer.spoil import spoil

CACHE = Path(".cache/train")
LINES_OF_A_BATCH = 8
POOL_BATCHES = 12
"""Batches drawn at once and sorted by width, so that little of a batch is padding."""
LONGEST_PX = 1600
"""Longer lines are left out of training: they cost as much as three and teach no more."""
SCRIPT_WEIGHTS = {"fraktur": 0.42, "antiqua": 0.33, "typewriter": 0.20, "gothic": 0.05}
DRAWN_SHARE = 0.3
DRAWN_LANGUAGES: tuple[Language, ...] = ("de", "fr", "en", "de")
RATE, HEAD_RATE, LAST_RATIO, WARM_UP_STEPS = 1.5e-4, 6e-4, 0.05, 60
DECAY, CLIP, EMA = 0.01, 5.0, 0.995
CHECKPOINT_STEPS, VALIDATION_STEPS = 50, 200
VALIDATION_LINES = 50
"""Lines of each script that are measured while training; the export measures all."""
SEED = 20261201


@dataclass(frozen=True)
class Example:
    """A line's input [3, 48, width] and the class ids of its text."""

    image: npt.NDArray[np.float32]
    ids: list[int]


class Lines:
    """An endless stream of examples: real lines by the weights of their scripts, drawn ones among them."""

    def __init__(
        self, real: Sequence[RealLine], alphabet: Alphabet, corpora: dict[Language, Corpus], fonts: Path
    ) -> None:
        """Take the ``real`` lines whose text ``alphabet`` can write; draw from ``corpora``, if there are any."""
        self._alphabet, self._corpora, self._fonts = alphabet, corpora, fonts
        self._by_script: dict[str, list[RealLine]] = defaultdict(list)
        for line in real:
            if alphabet.encode(line.text):
                self._by_script[line.script].append(line)
        self.rng = np.random.default_rng(SEED)
        self._drawn = self._draw_lines()

    def batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield images, frames of each, targets and lengths of targets."""
        while True:
            pool = sorted(
                (self._next() for _ in range(POOL_BATCHES * LINES_OF_A_BATCH)),
                key=lambda example: example.image.shape[2],
            )
            groups = [pool[at : at + LINES_OF_A_BATCH] for at in range(0, len(pool), LINES_OF_A_BATCH)]
            for at in self.rng.permutation(len(groups)):
                yield collated(groups[at])

    def _next(self) -> Example:
        while True:
            if self._corpora and self.rng.random() < DRAWN_SHARE:
                image, text = next(self._drawn)
            else:
                scripts = [script for script in SCRIPT_WEIGHTS if self._by_script[script]]
                weights = np.asarray([SCRIPT_WEIGHTS[script] for script in scripts])
                script = scripts[int(self.rng.choice(len(scripts), p=weights / weights.sum()))]
                line = self._by_script[script][int(self.rng.integers(len(self._by_script[script])))]
                image, text = spoil(line.image, self.rng), line.text
            ids = self._alphabet.encode(text)
            example = Example(prepared(image), ids or [])
            if ids is not None and example.image.shape[2] <= LONGEST_PX and len(ids) <= example.image.shape[2] // 16:
                return example

    def _draw_lines(self) -> Iterator[tuple[Image, str]]:
        while True:
            seed = int(self.rng.integers(2**31))
            language = DRAWN_LANGUAGES[seed % len(DRAWN_LANGUAGES)]
            text = self._corpora[language].document(random.Random(seed))
            for _, _, line, image in draw_document(text, self._fonts, seed, held_out=False):
                yield image, line.shown


def prepared(image: Image) -> npt.NDArray[np.float32]:
    """Return a grey line [height, width] as the network's input [3, 48, width], padded to its bucket."""
    pixels = np.repeat(image[:, :, None], 3, axis=2)
    return np.asarray(to_input(pixels)[0][0], np.float32)


def collated(examples: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return images [lines, 3, 48, width], frames, targets and lengths [lines] of ``examples``."""
    width = max(example.image.shape[2] for example in examples)
    images = np.zeros((len(examples), 3, 48, width), np.float32)
    for at, example in enumerate(examples):
        images[at, :, :, : example.image.shape[2]] = example.image
    return (
        torch.from_numpy(images).to(memory_format=torch.channels_last),
        torch.tensor([example.image.shape[2] // 8 for example in examples]),
        torch.tensor([index for example in examples for index in example.ids], dtype=torch.long),
        torch.tensor([len(example.ids) for example in examples]),
    )


def loss_of(network: OnnxNetwork, batch: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Return the CTC loss of ``batch`` per character."""
    images, frames, targets, lengths = batch
    logs = F.log_softmax(network(images), dim=2).transpose(0, 1)
    total = F.ctc_loss(logs, targets, frames, lengths, blank=BLANK_CLASS, reduction="sum", zero_infinity=True)
    return total / max(1, int(lengths.sum()))


def read(network: OnnxNetwork, alphabet: Alphabet, image: Image) -> str:
    """Return the greedy reading of a grey line [height, width]."""
    with torch.inference_mode():
        best = network(torch.from_numpy(prepared(image))[None])[0].argmax(1).tolist()
    return alphabet.decode([a for a, b in zip(best, [BLANK_CLASS, *best], strict=False) if a not in (b, BLANK_CLASS)])


def error_rates(network: OnnxNetwork, alphabet: Alphabet, lines: Sequence[RealLine]) -> dict[str, float]:
    """Return the character error rate by script, in the spelling as printed."""
    wrong: dict[str, int] = defaultdict(int)
    length: dict[str, int] = defaultdict(int)
    for line in lines:
        wrong[line.script] += Levenshtein.distance(read(network, alphabet, line.image), line.text)
        length[line.script] += len(line.text)
    return {script: wrong[script] / length[script] for script in sorted(wrong)}


class Training:
    """The state of one training, which a checkpoint holds whole."""

    def __init__(self, network: OnnxNetwork, head: tuple[str, str], steps: int) -> None:
        """Begin a training of ``steps`` steps; the tensors named ``head`` learn faster than the others."""
        self.network, self.steps, self.step = network, steps, 0
        keys = {name.replace(".", "/") for name in head}
        heads = [weight for key, weight in network.weights.items() if key in keys]
        others = [weight for key, weight in network.weights.items() if key not in keys]
        self.optimizer = torch.optim.AdamW(
            [{"params": others, "lr": RATE}, {"params": heads, "lr": HEAD_RATE}], weight_decay=DECAY
        )
        self.average = {key: weight.detach().clone() for key, weight in network.weights.items()}
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._ratio)

    def _ratio(self, step: int) -> float:
        if step < WARM_UP_STEPS:
            return (step + 1) / WARM_UP_STEPS
        done = min(1.0, (step - WARM_UP_STEPS) / max(1, self.steps - WARM_UP_STEPS))
        return LAST_RATIO + (1 - LAST_RATIO) * 0.5 * (1 + math.cos(math.pi * done))

    def advance(self, loss: torch.Tensor) -> None:
        """Take one step against ``loss``."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        share = min(EMA, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for key, weight in self.network.weights.items():
                self.average[key].lerp_(weight, 1 - share)

    def save(self, path: Path, lines: Lines) -> None:
        """Write the checkpoint; a half-written one never takes the last one's name."""
        state = {
            "step": self.step,
            "weights": self.network.state_dict(),
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "rng": lines.rng.bit_generator.state,
        }
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def load(self, path: Path, lines: Lines) -> None:
        """Go on from the checkpoint at ``path``."""
        state = torch.load(path, weights_only=True)
        self.step = state["step"]
        self.network.load_state_dict(state["weights"])
        self.average = state["average"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        lines.rng.bit_generator.state = state["rng"]


def averaged(training: Training, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with the averaged weights of ``training``."""
    network = OnnxNetwork(model)
    with torch.no_grad():
        for key, weight in training.average.items():
            network.weights[key].copy_(weight)
    return network.written_to(model)


def validation_lines(folder: Path, limit: int | None = None) -> list[RealLine]:
    """Return the lines of held-out books, of each script the first ``limit`` in an order that mixes books."""
    by_script: dict[str, list[RealLine]] = defaultdict(list)
    for line in read_lines(folder, "val"):
        by_script[line.script].append(line)
    mixed = random.Random(SEED)
    for lines in by_script.values():
        mixed.shuffle(lines)
    return [line for lines in by_script.values() for line in lines[:limit]]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=Path, required=True, help="folder of real lines (lines.tsv and tar files)")
    parser.add_argument("--text", type=Path, required=True, help="folder with en/ fr/ de/ of *.txt to draw lines from")
    parser.add_argument("--books", type=Path, help="folder of books whose text must not be trained on")
    parser.add_argument("--begin", type=Path, required=True, help="the ONNX file that training begins with")
    parser.add_argument("--characters", type=Path, help="its characters, one a line, where the file does not hold them")
    parser.add_argument("--name", default="small", help="name of the training")
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    folder = options.cache / f"recognizer_{options.name}"
    folder.mkdir(parents=True, exist_ok=True)
    begin = onnx.load(options.begin)
    alphabet = latin_alphabet(characters_of(begin, options.characters))
    model = with_head(begin, alphabet.rows, alphabet.like)
    network = OnnxNetwork(model)
    leaks = read_leaks(options.books) if options.books else frozenset()
    corpora: dict[Language, Corpus] = {
        language: Corpus(options.text / language, language, held_out=False, drop=leaks)
        for language in dict.fromkeys(DRAWN_LANGUAGES)
    }
    lines = Lines(list(read_lines(options.lines, "train")), alphabet, corpora, options.cache / "fonts")
    training = Training(network, head_names(model), options.steps)
    if (folder / "checkpoint.pt").exists():
        training.load(folder / "checkpoint.pt", lines)
    setting = Setting(model, alphabet, validation_lines(options.lines, VALIDATION_LINES), folder)
    run(training, lines, setting, options.minutes)


@dataclass(frozen=True)
class Setting:
    """What a training is of: the network it begins with, its alphabet, what it is measured on, where it is kept."""

    model: onnx.ModelProto
    alphabet: Alphabet
    held_out: Sequence[RealLine]
    folder: Path


def run(training: Training, lines: Lines, setting: Setting, minutes: float) -> None:
    """Train until the last step or for ``minutes``."""
    end = time.monotonic() + 60 * minutes
    stream = lines.batches()
    losses: list[float] = []
    while training.step < training.steps and time.monotonic() < end:
        if training.step % VALIDATION_STEPS == 0:
            measure(training, setting, losses)
            losses.clear()
        loss = loss_of(training.network, next(stream))
        training.advance(loss)
        losses.append(float(loss.detach()))
        if training.step % CHECKPOINT_STEPS == 0:
            training.save(setting.folder / "checkpoint.pt", lines)
            print(f"{time.strftime('%H:%M')} step {training.step} loss {np.mean(losses[-50:]):.4f}", flush=True)
    training.save(setting.folder / "checkpoint.pt", lines)
    onnx.save(averaged(training, setting.model), setting.folder / "averaged.onnx")
    measure(training, setting, losses)


def measure(training: Training, setting: Setting, losses: Sequence[float]) -> None:
    """Measure the averaged weights and add a row to the curve."""
    network = OnnxNetwork(averaged(training, setting.model))
    by_script = (
        f"{script} {rate:.4f}" for script, rate in error_rates(network, setting.alphabet, setting.held_out).items()
    )
    row = [training.step, f"{np.mean(losses):.4f}" if losses else "", *by_script]
    with (setting.folder / "curve.csv").open("a", newline="") as file:
        csv.writer(file).writerow(row)
    print(*row, flush=True)


def characters_of(model: onnx.ModelProto, listed: Path | None) -> tuple[str, ...]:
    """Return the character of each class, the blank's empty; the space stands last, as PP-OCRv6 has it."""
    if listed:
        written = listed.read_text(encoding="utf-8").rstrip("\n").split("\n")
    else:
        written = next(entry.value for entry in model.metadata_props if entry.key == "character").split("\n")
    return ("", *written, " ")


if __name__ == "__main__":
    main()
