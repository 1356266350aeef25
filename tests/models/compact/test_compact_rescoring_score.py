"""The CTC score against its definition: the sum over all paths of frames that collapse to the text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from models.compact.recognise.ctc_score import CtcHead, forward

FRAMES, CLASSES = 6, 4
TOLERANCE = 1e-4
"""Both sum a few thousand float64 products; ``forward`` returns float32."""


def score_of_all_paths(logits: np.ndarray, text: tuple[int, ...]) -> float:
    """Return log of the sum over paths, by writing every path down."""
    total = 0.0
    for path in itertools.product(range(CLASSES), repeat=len(logits)):
        collapsed = tuple(symbol for symbol, _ in itertools.groupby(path) if symbol)
        if collapsed == text:
            total += np.exp(sum(float(logits[frame, symbol]) for frame, symbol in enumerate(path)))
    return float(np.log(total))


@pytest.mark.parametrize("text", [(), (1,), (1, 2), (2, 2), (1, 1, 1), (1, 2, 1, 3)])
def test_the_score_is_the_sum_over_all_paths_that_collapse_to_the_text(text):
    logits = np.random.default_rng(len(text)).normal(0, 2, (FRAMES, CLASSES)).astype(np.float32)
    assert forward(logits, [text])[0] == pytest.approx(score_of_all_paths(logits, text), abs=TOLERANCE)


def test_texts_scored_together_score_as_they_do_alone():
    logits = np.random.default_rng(7).normal(0, 3, (FRAMES, CLASSES)).astype(np.float32)
    texts = [(1, 2, 3), (1,), (), (3, 3)]
    together = forward(logits, texts)
    assert together.tolist() == pytest.approx([float(forward(logits, [text])[0]) for text in texts], abs=TOLERANCE)


def test_a_text_that_needs_more_frames_than_there_are_is_impossible():
    logits = np.zeros((3, CLASSES), np.float32)
    fits, repeats = forward(logits, [(1, 2, 3), (1, 1)])
    assert fits == pytest.approx(0)
    assert repeats == pytest.approx(0)  # 1, blank, 1
    assert forward(logits, [(1, 1, 2)])[0] < -1e8


def test_long_improbable_stretches_do_not_underflow():
    logits = np.full((400, CLASSES), -50, np.float32)
    logits[:, 0] = 0
    assert forward(logits, [(1, 2)])[0] == pytest.approx(-100 + np.log(400 * 399 / 2), abs=0.01)


def test_the_head_scores_as_if_the_whole_softmax_had_been_computed():
    rng = np.random.default_rng(3)
    head = CtcHead(rng.normal(0, 0.3, (50, 120)).astype(np.float32), rng.normal(0, 1, 50).astype(np.float32))
    frames = rng.normal(0, 1, (9, 120)).astype(np.float16)
    texts = [(5, 6), (5, 7, 5), (40,)]
    everything = head.logits(frames, np.arange(50))
    normalised = everything - np.log(np.exp(everything).sum(axis=1, keepdims=True))
    whole, few = forward(normalised, texts), head.score(frames, texts)
    assert (few - few[0]).tolist() == pytest.approx((whole - whole[0]).tolist(), abs=1e-3)
