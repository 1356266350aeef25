"""Where a known text stands in the frames of a line: the best CTC path through it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IMPOSSIBLE = np.float32(-1e30)


def align(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Return the frame of each character [characters], strictly increasing, on the best path through ``scores``.

    ``scores`` [frames, 1 + 2 * characters] holds the score of every state at every frame: blank, first character,
    blank, second character, ..., blank. A constant added to all states of a frame changes nothing, so unnormalised
    logits serve. A character's frame is the one where it is farthest above the blank within its stay.

    Raises:
        ValueError: there are fewer frames than characters.
    """
    frames, states = scores.shape
    characters = states // 2
    if frames < characters:
        raise ValueError(
            f"{characters} characters cannot stand in {frames} frames; the crop is too narrow for its text"
        )
    if not characters:
        return np.zeros(0, np.int32)
    came_from = _best_steps(scores)
    state = states - 1 if came_from[1] else states - 2
    path = np.empty(frames, np.int32)
    for frame in range(frames - 1, -1, -1):
        path[frame] = state
        state -= int(came_from[0][frame, state])
    above_blank = scores[:, 1::2] - scores[:, :1]
    own = np.where(path[:, None] == 1 + 2 * np.arange(characters), above_blank, IMPOSSIBLE)
    return np.asarray(own.argmax(axis=0), np.int32)


def _best_steps(scores: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], bool]:
    """Return how many states each best path came up by [frames, states], and whether it ends on the last blank."""
    frames, states = scores.shape
    may_skip = np.arange(states) % 2 == 1
    best = np.full(states, IMPOSSIBLE)
    best[:2] = scores[0, :2]
    steps = np.zeros((frames, states), np.int8)
    for frame in range(1, frames):
        one = np.concatenate(([IMPOSSIBLE], best[:-1]))
        two = np.where(may_skip, np.concatenate(([IMPOSSIBLE, IMPOSSIBLE], best[:-2])), IMPOSSIBLE)
        choices = np.stack((best, one, two))
        steps[frame] = choices.argmax(axis=0)
        best = choices.max(axis=0) + scores[frame]
    return steps, bool(best[-1] > best[-2])
