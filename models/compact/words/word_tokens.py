"""What decoder and memory hold of a word: its picture and its class ids, wherever it stands."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from models.compact.onnx_weights import BLANK_CLASS
from models.compact.words.split import TOKEN_CHARACTERS, WordSpan
from models.sr_swa.pages import EncodedLine


def word_frames(line: EncodedLine, word: WordSpan) -> slice:
    """Return the frames of ``line`` from the peak of the word's first character to that of its last, inclusive."""
    return slice(int(line.ctc_frames[word.start]), int(line.ctc_frames[word.stop - 1]) + 1)


def word_picture(line: EncodedLine, word: WordSpan) -> npt.NDArray[np.float32]:
    """Return first, mean and last frame of the word [360]: what it is like, at both ends, without its position."""
    frames = line.frames[word_frames(line, word)].astype(np.float32)
    return np.concatenate((frames[0], frames.mean(axis=0), frames[-1]))


def word_ids(line: EncodedLine, word: WordSpan) -> npt.NDArray[np.int32]:
    """Return the word's class ids [24], the blank's where it is shorter; a longer word loses its end."""
    ids = np.full(TOKEN_CHARACTERS, BLANK_CLASS, np.int32)
    own = line.ctc_ids[word.start : word.stop][:TOKEN_CHARACTERS]
    ids[: len(own)] = own
    return ids
