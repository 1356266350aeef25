"""Trains the decoder on whatever generated documents exist: ``python -m models.training.train --steps N``.

Stops after ``--minutes`` or at the last step, and goes on from its checkpoint when started again: weights, averaged
weights, optimiser, step, random state. Curves are kept as CSV. ``--from`` begins with the weights of another training,
as those of a second language do with the first's recogniser, alphabet and scanning damage are the same.
"""

from __future__ import annotations

import argparse
import copy
import csv
import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from models.compact.decode.decoder import (
    END_CLASS,
    CompactDecoder,
    FrozenHead,
    load_weights,
    save_weights,
)
from models.compact.decode.word_memory import DecoderShape, WordTokens
from models.training import batches as training_batches
from models.training.batches import PADDING, TrainingBatch
from models.training.drawing import shards

RATE, LAST_RATE, WARM_UP_STEPS = 1e-3, 2e-5, 100
WARM_RATE = 3e-4
"""Highest rate of a training that begins with another's weights: what they know is to be kept."""
DECAY, CLIP, EMA = 0.02, 1.0, 0.998
POINTER_WEIGHT, LATE_POINTER_WEIGHT = 0.3, 0.1
RECALL_WEIGHT = 0.2
LATE_SHARE, OWN_MISTAKES_SHARE = 0.25, 0.6
"""Parts of the training after which the pointer weighs less, and prefixes hold the decoder's own mistakes."""
CHECKPOINT_STEPS, CURVE_STEPS, VALIDATION_STEPS = 50, 10, 200
VALIDATION_DOCUMENTS = 12
FREQUENT = 200
SEED = 20261129


@dataclass(frozen=True)
class Losses:
    """Parts of one step's loss: characters, pointer, recall; ``total`` is their weighted sum."""

    total: torch.Tensor
    character: float
    pointer: float
    recall: float


def losses(
    model: CompactDecoder, training_batch: TrainingBatch, pointer_weight: float, *, own_mistakes: bool = False
) -> Losses:
    """Return the losses of ``model`` on ``training_batch``."""
    encoder_output = model.encode(training_batch.batch, _words(model, training_batch))
    prefix = _own_prefix(model, training_batch) if own_mistakes else training_batch.prefix
    decoder_output = model.decode(encoder_output, prefix, training_batch.places)
    logs = model.log_probabilities(decoder_output, training_batch.classes)
    asked = training_batch.target != PADDING
    place = torch.searchsorted(training_batch.classes, training_batch.target.clamp_min(0))
    character = F.nll_loss(logs[asked], place[asked])
    aligned = training_batch.frames != PADDING
    pointer = (
        F.nll_loss(decoder_output.pointing[aligned], training_batch.frames[aligned]) if aligned.any() else character * 0
    )
    recall = _recall_loss(encoder_output.recall, training_batch) if encoder_output.recall is not None else character * 0
    total = character + pointer_weight * pointer + RECALL_WEIGHT * recall
    return Losses(total, float(character.detach()), float(pointer.detach()), float(recall.detach()))


def _words(model: CompactDecoder, training_batch: TrainingBatch) -> WordTokens | None:
    if training_batch.memory is None or not len(training_batch.pages):
        return None
    tokens = model.memory.tokens(training_batch.memory.pictures, training_batch.memory.payload)
    return WordTokens(
        tokens.keys, tokens.values, tokens.payload, training_batch.pages[:, None] > training_batch.memory.pages
    )


def _own_prefix(model: CompactDecoder, training_batch: TrainingBatch) -> torch.Tensor:
    """Return the prefix with a third of the characters that the decoder itself would have written otherwise."""
    model.eval()
    with torch.no_grad():
        decoder_output = model.decode(
            model.encode(training_batch.batch, _words(model, training_batch)),
            training_batch.prefix,
            training_batch.places,
        )
        best = training_batch.classes[model.log_probabilities(decoder_output, training_batch.classes).argmax(dim=-1)][
            :, :-1
        ]
    model.train()
    swap = (best != END_CLASS) & (training_batch.prefix != PADDING) & (torch.rand(best.shape) < 1 / 3)
    return torch.where(swap, best, training_batch.prefix)


def _recall_loss(recall: torch.Tensor, training_batch: TrainingBatch) -> torch.Tensor:
    """Return how far the look-up is from the same word of an earlier page, or from "nowhere" for a new word."""
    assert training_batch.memory is not None
    known = training_batch.identity >= 0
    same = (training_batch.identity[:, None] == training_batch.memory.identity) & (
        training_batch.pages[:, None] > training_batch.memory.pages
    )
    same &= known[:, None]
    target = torch.cat((same, ~same.any(dim=1, keepdim=True)), dim=1)
    mass = (recall * target).sum(dim=1)[known]
    return -mass.clamp_min(1e-6).log().mean() if len(mass) else recall.sum() * 0


class Training:
    """Model, averaged model, optimiser and random state; everything that a checkpoint holds."""

    def __init__(self, head: FrozenHead, steps: int, begin_with: Path | None = None) -> None:
        """Begin at step 0 of ``steps``, with the weights in the file ``begin_with`` or with random ones."""
        torch.manual_seed(SEED)
        self.rate = WARM_RATE if begin_with else RATE
        self.model = _loaded(begin_with, head) if begin_with else CompactDecoder(DecoderShape(), head)
        self.average = copy.deepcopy(self.model).eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.rate, betas=(0.9, 0.98), weight_decay=DECAY)
        self.rng = np.random.default_rng(SEED)
        self.step, self.steps, self.characters, self.seconds = 0, steps, 0, 0.0

    def learn(self, training_batch: TrainingBatch) -> Losses:
        """Take one step."""
        started = time.monotonic()
        part = self.step / self.steps
        for group in self.optimizer.param_groups:
            group["lr"] = _rate(self.step, self.steps, self.rate)
        weight = POINTER_WEIGHT if part < LATE_SHARE else LATE_POINTER_WEIGHT
        loss = losses(self.model.train(), training_batch, weight, own_mistakes=part > OWN_MISTAKES_SHARE)
        self.optimizer.zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.step += 1
        decay = min(EMA, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for kept, new in zip(self.average.parameters(), self.model.parameters(), strict=True):
                kept.lerp_(new, 1 - decay)
        self.characters += int((training_batch.target != PADDING).sum())
        self.seconds += time.monotonic() - started
        return loss

    def save(self, path: Path) -> None:
        """Write a checkpoint; the file is complete or the one before it stays."""
        state = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "characters": self.characters,
            "seconds": self.seconds,
            "numpy": self.rng.bit_generator.state,
            "torch": torch.get_rng_state(),
        }
        part = path.with_suffix(".part")
        torch.save(state, part)
        part.rename(path)

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint of ``save``."""
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.characters, self.seconds = state["step"], state["characters"], state["seconds"]
        self.rng.bit_generator.state = state["numpy"]
        torch.set_rng_state(state["torch"])


def validate(model: CompactDecoder, documents: Sequence[shards.Document]) -> tuple[float, float]:
    """Return loss and accuracy a character, teacher-forced on the truth, without memory."""
    rng = np.random.default_rng(0)
    right = total = 0
    summed = 0.0
    with torch.no_grad():
        for document in documents:
            training_batch = training_batches.prepare(document, None, rng, noisy=False, frequent=())
            if training_batch is None:
                continue
            logs = model.log_probabilities(
                model.decode(model.encode(training_batch.batch), training_batch.prefix, training_batch.places),
                training_batch.classes,
            )
            asked = training_batch.target != PADDING
            place = torch.searchsorted(training_batch.classes, training_batch.target.clamp_min(0))
            summed += float(F.nll_loss(logs[asked], place[asked], reduction="sum"))
            right += int((logs.argmax(dim=-1) == place)[asked].sum())
            total += int(asked.sum())
    return summed / total, right / total


def _loaded(path: Path, head: FrozenHead) -> CompactDecoder:
    return load_weights(path, hashlib.sha256(path.read_bytes()).hexdigest(), head).requires_grad_(True)


def _rate(step: int, steps: int, highest: float) -> float:
    if step < WARM_UP_STEPS:
        return highest * (step + 1) / WARM_UP_STEPS
    return LAST_RATE + (highest - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))


def _next_training_batch(training: Training, folder: Path, frequent: Sequence[int]) -> TrainingBatch | None:
    """Draw a document that exists now; sometimes without memory, sometimes with another document's."""
    files = sorted(folder.glob("*.safetensors"))
    rng = training.rng
    document = shards.load(files[int(rng.integers(len(files)))])
    draw = rng.random()
    other = None
    if draw < training_batches.OTHER_MEMORY_RATE:
        other = shards.load(files[int(rng.integers(len(files)))])
        other = None if other.number == document.number else other
    training_batch = training_batches.prepare(document, other, rng, noisy=True, frequent=frequent)
    return (
        training_batches.without_memory(training_batch)
        if training_batch and draw > 1 - training_batches.NO_MEMORY_RATE
        else training_batch
    )


def _frequent(documents: Sequence[shards.Document]) -> list[int]:
    counts = np.zeros(training_batches.HEAD_CLASSES, np.int64)
    for document in documents:
        for sample in document.samples:
            np.add.at(counts, sample.target_ids, 1)
    return [int(index) for index in counts.argsort()[::-1][:FREQUENT] if counts[index]]


def _append(path: Path, row: dict[str, float | int]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path(".cache/train"))
    parser.add_argument("--curves", type=Path, default=Path(__file__).parent / "curves")
    parser.add_argument("--steps", type=int, default=20_000, help="steps of the whole schedule")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; start again to go on")
    parser.add_argument("--from", dest="begin_with", type=Path, metavar="WEIGHTS", help="begin with these weights")
    parser.add_argument("--export", type=Path, help="write the averaged weights there at the end")
    options = parser.parse_args()
    torch.set_num_threads(1)
    training = Training(FrozenHead.load(), options.steps, options.begin_with)
    checkpoint = options.cache / "checkpoint.pt"
    if checkpoint.exists():
        training.restore(checkpoint)
    options.curves.mkdir(parents=True, exist_ok=True)
    held_out = [
        shards.load(p) for p in sorted((options.cache / "held_out").glob("*.safetensors"))[:VALIDATION_DOCUMENTS]
    ]
    frequent = _frequent(held_out)
    deadline = time.monotonic() + 60 * options.minutes
    run(training, options.cache, options.curves, held_out, frequent, deadline)
    training.save(checkpoint)
    if options.export:
        print(save_weights(training.average, options.export, f"step {training.step} of {training.steps}"))


def run(
    training: Training,
    cache: Path,
    curves: Path,
    held_out: Sequence[shards.Document],
    frequent: Sequence[int],
    deadline: float,
) -> None:
    """Train until the last step or ``deadline`` (monotonic seconds), with curves and checkpoints."""
    smooth: dict[str, float] = {}
    while training.step < training.steps and time.monotonic() < deadline:
        training_batch = _next_training_batch(training, cache / "documents", frequent)
        if training_batch is None:
            continue
        loss = training.learn(training_batch)
        for name in ("character", "pointer", "recall"):
            value = getattr(loss, name)
            smooth[name] = value if name not in smooth else 0.95 * smooth[name] + 0.05 * value
        shared = {"step": training.step, "seconds": round(training.seconds), "characters": training.characters}
        if training.step % CURVE_STEPS == 0:
            _append(curves / "train.csv", shared | {name: round(value, 4) for name, value in smooth.items()})
        if training.step % CHECKPOINT_STEPS == 0:
            training.save(cache / "checkpoint.pt")
        if training.step % VALIDATION_STEPS == 0:
            nll, accuracy = validate(training.average, held_out)
            _append(curves / "validation.csv", shared | {"nll": round(nll, 4), "accuracy": round(accuracy, 4)})


if __name__ == "__main__":
    main()
