"""How well texts fit a stretch of a line: the CTC forward probability of each, on the frozen head's own scores.

Texts that compete for the same frames share the softmax's denominator, so it cancels: only the classes that occur in
them are computed, and nothing is lost. Knows nothing of words, candidates or where texts come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models.compact.onnx_weights import BLANK_CLASS, RECOGNIZER, find_weights

Scores = npt.NDArray[np.float32]

_WEIGHTS, _BIAS = "linear_8.w_0", "linear_8.b_0"
IMPOSSIBLE = -1e9
"""Log score of a text that needs more frames than there are."""
LOWEST = 1e-35
"""Keeps a frame in which every class has vanished from dividing by zero; far below any real score ratio."""


class CtcHead:
    """The recogniser's character head. Invariant: ``weights`` [classes, 120] and ``bias`` [classes] never change."""

    def __init__(self, weights: Scores, bias: Scores) -> None:
        """Take the head as it is."""
        self.weights = np.ascontiguousarray(weights, np.float32)
        self.bias = np.ascontiguousarray(bias, np.float32)

    @classmethod
    def load(cls, folder: Path | None = None) -> CtcHead:
        """Read the head out of the recogniser's file.

        Raises:
            ModelUnavailable: the file is missing or not the expected one.
        """
        import onnx
        from onnx import numpy_helper

        parts = {tensor.name: tensor for tensor in onnx.load(find_weights(RECOGNIZER, folder)).graph.initializer}
        weights, bias = (numpy_helper.to_array(parts[name]) for name in (_WEIGHTS, _BIAS))
        return cls(weights.T, bias)

    def logits(self, frames: npt.NDArray[Any], classes: npt.NDArray[np.int32]) -> Scores:
        """Return the head's raw scores [frames, classes] of ``classes`` on features ``frames`` [frames, 120]."""
        return np.asarray(frames.astype(np.float32) @ self.weights[classes].T + self.bias[classes], np.float32)

    def score(self, frames: npt.NDArray[Any], texts: Sequence[Sequence[int]]) -> Scores:
        """Return log P [texts] of ``texts`` (class ids, no blanks) on ``frames`` [frames, 120], but for a constant.

        The constant is that of the frames, so scores may be compared with one another only.
        """
        written = np.fromiter(chain((BLANK_CLASS,), *texts), np.int32)  # the blank is the first column
        classes, columns = np.unique(written, return_inverse=True)
        ends = accumulate(map(len, texts), initial=1)
        return forward(self.logits(frames, classes), [columns[start:end].tolist() for start, end in pairwise(ends)])


def forward(logits: Scores, texts: Sequence[Sequence[int]]) -> Scores:
    """Return the CTC forward score of ``texts``: columns of ``logits`` [frames, columns], of which 0 is the blank.

    All texts advance together, frame by frame, as ratios to the best state so far: sums of products instead of sums of
    logarithms. A state that has fallen 1e-35 behind counts as lost.
    """
    lengths = np.fromiter((2 * len(text) + 1 for text in texts), np.int64, len(texts))
    states = _with_blanks(texts, int(lengths.max()))
    may_skip = np.zeros(states.shape, bool)
    may_skip[:, 2:] = (states[:, 2:] != 0) & (states[:, 2:] != states[:, :-2])
    best = logits.max(1, keepdims=True)
    probabilities = np.exp((logits - best).astype(np.float64))
    alive = np.zeros(states.shape)
    alive[:, :2] = probabilities[0][states[:, :2]]
    log_scale = np.full(len(texts), float(best.sum()))
    for frame in probabilities[1:]:
        alive, log_scale = _rescale(alive, log_scale)
        stepped = alive.copy()
        stepped[:, 1:] += alive[:, :-1]
        stepped[:, 2:] += alive[:, :-2] * may_skip[:, 2:]
        alive = stepped * frame[states]
    rows = np.arange(len(texts))
    ends = alive[rows, lengths - 1] + np.where(lengths > 1, alive[rows, np.maximum(lengths - 2, 0)], 0)
    with np.errstate(divide="ignore"):
        scores = np.log(ends) + log_scale
    return np.where(ends > 0, scores, IMPOSSIBLE).astype(np.float32)


def _rescale(
    alive: npt.NDArray[np.float64], log_scale: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    peak = np.maximum(alive.max(1), LOWEST)
    return alive / peak[:, None], log_scale + np.log(peak)


def _with_blanks(texts: Sequence[Sequence[int]], width: int) -> npt.NDArray[np.int64]:
    """Return the columns of each text with blanks (0) between and around [texts, width]; the rest is blank too."""
    states = np.zeros((len(texts), width), np.int64)
    for row, text in enumerate(texts):
        states[row, 1 : 2 * len(text) + 1 : 2] = text
    return states
