"""Turns a generated document into one training step: lines, prefixes with real mistakes, targets, memory.

A step is some usable lines of one document. What stands before a line is the hypothesis of the line before it; the
memory of a line is the confident hypothesis words of the earlier pages, now and then those of another document instead.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from models.compact.decode.decoder import END_CLASS
from models.compact.decode.line_batch import LineBatch
from models.compact.words.split import WordSpan
from models.compact.words.word_tokens import word_frames, word_ids, word_picture
from models.training.drawing.shards import Document, Sample

CONFIDENT_WORD = 0.8
"""Hypothesis words with every character at least this sure enter the memory, as when documents are read."""
OWN_HYPOTHESIS_RATE = 0.5
"""Share of the hypothesis's mistakes that stand in the prefix instead of the truth."""
SLIP_RATE = 0.02
"""Share of prefix characters that give way to the second best class at their frame."""
NO_MEMORY_RATE, OTHER_MEMORY_RATE = 0.3, 0.2
"""Documents read without memory, and with another document's: similar names must not be copied."""
FRAME_NOISE = 0.05
"""Standard deviation of the noise on frames, whose features are about 1."""
PADDING = -1
LINES_OF_A_STEP = 12
"""Lines that follow one another; more of them make a step dearer than better at the start of a training."""
HEAD_CLASSES = 18710
RANDOM_CLASSES = 600
"""Classes drawn at random beside those of the step, for the sampled softmax."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Words that a step may recall: ``pictures`` [words, 360], ``payload`` [words, 24], ``pages`` [words].

    ``identity`` [words]: equal for equal words of the truth, negative where there is none.
    """

    pictures: torch.Tensor
    payload: torch.Tensor
    pages: torch.Tensor
    identity: torch.Tensor


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """One step. ``prefix`` [lines, steps], ``target`` [lines, steps + 1] with the end; ``frames``, ``places`` like it.

    ``identity`` and ``pages`` [words of the batch] go with ``memory``. Padding is -1.
    """

    batch: LineBatch
    prefix: torch.Tensor
    target: torch.Tensor
    frames: torch.Tensor
    places: torch.Tensor
    classes: torch.Tensor
    memory: Memory | None
    identity: torch.Tensor
    pages: torch.Tensor


def prepare(
    document: Document, other: Document | None, rng: np.random.Generator, *, noisy: bool, frequent: Sequence[int]
) -> TrainingBatch | None:
    """Return the step of ``document``, or None if no line of it can be learnt from.

    ``other`` lends its memory when given. ``frequent`` classes are always among the sampled ones.
    """
    places = [i for i, sample in enumerate(document.samples) if sample.usable and len(sample.line.frames)]
    if not places:
        return None
    if noisy and len(places) > LINES_OF_A_STEP:
        start = int(rng.integers(len(places) - LINES_OF_A_STEP + 1))
        places = places[start : start + LINES_OF_A_STEP]
    samples = [document.samples[i] for i in places]
    before = [document.samples[i - 1].line.ctc_ids.tolist() if i else [] for i in places]
    batch = LineBatch.of([sample.line for sample in samples], before)
    if noisy:
        batch = replace(batch, frames=batch.frames + FRAME_NOISE * torch.from_numpy(_normal(rng, batch.frames.shape)))
    longest = max(len(sample.target_ids) for sample in samples)
    shape = (len(samples), longest + 1)
    prefix, target, frames = (np.full(shape, PADDING, np.int64) for _ in range(3))
    places_used = np.zeros(shape, np.int64)
    for row, sample in enumerate(samples):
        length = len(sample.target_ids)
        target[row, :length], target[row, length] = sample.target_ids, END_CLASS
        frames[row, :length] = sample.target_frames
        places_used[row, 1 : length + 1] = np.searchsorted(sample.line.ctc_frames, sample.target_frames, side="right")
        prefix[row, :length] = _with_mistakes(sample, rng) if noisy else sample.target_ids
    words = [(sample, word) for sample, words in zip(samples, batch.words, strict=True) for word in words]
    return TrainingBatch(
        batch=batch,
        prefix=torch.from_numpy(prefix[:, :-1]),
        target=torch.from_numpy(target),
        frames=torch.from_numpy(frames),
        places=torch.from_numpy(places_used),
        classes=_classes(target, samples, frequent, rng),
        memory=memory_of(other or document),
        identity=torch.tensor([_identity(sample, *_span(sample, word)) for sample, word in words], dtype=torch.long),
        pages=torch.tensor([sample.page for sample, _ in words], dtype=torch.long)
        if other is None
        else torch.full((len(words),), 1 << 30),
    )


def without_memory(training_batch: TrainingBatch) -> TrainingBatch:
    """Return ``training_batch`` as read on a first page."""
    return replace(training_batch, memory=None)


def _with_mistakes(sample: Sample, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the target with some of the hypothesis's own mistakes, and some second choices of the recogniser."""
    ids = sample.target_ids.astype(np.int64)
    if not len(ids):
        return ids
    best, second = (sample.line.top_ids[sample.target_frames, rank].astype(np.int64) for rank in (0, 1))
    wrong = (best != ids) & (best != END_CLASS) & (rng.random(len(ids)) < OWN_HYPOTHESIS_RATE)
    slip = (second != END_CLASS) & (rng.random(len(ids)) < SLIP_RATE)
    return np.where(wrong, best, np.where(slip, second, ids))


def _classes(
    target: npt.NDArray[np.int64], samples: Sequence[Sample], frequent: Sequence[int], rng: np.random.Generator
) -> torch.Tensor:
    """Return the classes of the sampled softmax, the end first."""
    seen = np.concatenate([sample.line.top_ids[:, :4].ravel() for sample in samples])
    drawn = rng.integers(1, HEAD_CLASSES, RANDOM_CLASSES)
    every = np.unique(np.concatenate((target.ravel(), seen, np.asarray(frequent), drawn)))
    return torch.from_numpy(np.concatenate(([END_CLASS], every[every > END_CLASS])).astype(np.int64))


def memory_of(document: Document) -> Memory | None:
    """Return the confident words of all pages of ``document``."""
    words = []
    for sample in document.samples:
        if sample.kind == "empty" or not len(sample.line.ctc_ids):
            continue
        batch = LineBatch.of([sample.line], [[]])
        for word in batch.words[0]:
            if sample.line.ctc_posteriors[word.start : word.stop].min() >= CONFIDENT_WORD:
                words.append((sample, word))
    if not words:
        return None
    return Memory(
        pictures=torch.from_numpy(np.stack([word_picture(sample.line, word) for sample, word in words])),
        payload=torch.from_numpy(np.stack([word_ids(sample.line, word) for sample, word in words])).long(),
        pages=torch.tensor([sample.page for sample, _ in words]),
        identity=torch.tensor([_identity(sample, *_span(sample, word)) for sample, word in words]),
    )


def _span(sample: Sample, word: WordSpan) -> tuple[int, int]:
    frames = word_frames(sample.line, word)
    return frames.start, frames.stop


def _identity(sample: Sample, start: int, stop: int) -> int:
    """Return a number for the true word between two frames, -1 if it has fewer than two characters."""
    if not sample.usable:
        return -1
    inside = (sample.target_frames >= start - 1) & (sample.target_frames <= stop)
    ids = sample.target_ids[inside]
    return zlib.crc32(ids.tobytes()) if len(ids) > 1 else -1


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)
