"""Lines as the compact decoder takes them: padded tensors, hypothesis words, and what stood before.

Knows no weights. A line's row depends on the line alone; padding is masked everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from models.compact.onnx_weights import BLANK_CLASS, FEATURE_DIM
from models.compact.words.split import TOKEN_CHARACTERS, WordSpan, split_tokens
from models.compact.words.word_tokens import word_frames, word_picture
from models.sr_swa.pages import EncodedLine

SPACE_CLASS = 18709
"""The head's last class."""
CONTEXT_CHARACTERS = 12
"""How many characters before the line the decoder sees; fixed before the batch."""


@dataclass(frozen=True, eq=False)
class LineBatch:
    """``frames`` [lines, frames, 120]; ``signals`` [lines, frames, 3]: see ``frame_signals``.

    ``counts`` [lines, frames]: hypothesis characters begun so far. ``real`` [lines, frames] is False on padding.
    ``totals`` [lines]: hypothesis characters. ``context`` [lines, 12]: ids before the line, -1 where there is none.
    ``word_of_frame`` [lines, frames]: index into the words of the whole batch, -1 outside words; ``from_start`` and
    ``from_end`` [lines, frames]: its offset in its word [characters]. ``word_pictures`` [words, 360]: first, mean and
    last frame of each word. ``words``: those of each line.
    """

    frames: torch.Tensor
    signals: torch.Tensor
    counts: torch.Tensor
    real: torch.Tensor
    totals: torch.Tensor
    context: torch.Tensor
    word_of_frame: torch.Tensor
    from_start: torch.Tensor
    from_end: torch.Tensor
    word_pictures: torch.Tensor
    words: tuple[tuple[WordSpan, ...], ...]

    @classmethod
    def of(
        cls, lines: Sequence[EncodedLine], contexts: Sequence[Sequence[int]], *, with_words: bool = True
    ) -> LineBatch:
        """Build the batch of ``lines``; ``contexts`` are the ids that stood before each. Only a memory needs words."""
        longest = max(max(len(line.frames) for line in lines), 1)
        shape = (len(lines), longest)
        frames, signals = np.zeros((*shape, FEATURE_DIM), np.float32), np.zeros((*shape, 3), np.float32)
        counts, real = np.zeros(shape, np.int64), np.zeros(shape, bool)
        places = np.full((3, *shape), -1, np.int64)
        context = np.full((len(lines), CONTEXT_CHARACTERS), -1, np.int64)
        words: list[tuple[WordSpan, ...]] = []
        pictures: list[npt.NDArray[np.float32]] = []
        for row, (line, before) in enumerate(zip(lines, contexts, strict=True)):
            length = len(line.frames)
            frames[row, :length] = line.frames
            signals[row, :length] = frame_signals(line)
            counts[row, :length] = np.cumsum(signals[row, :length, 2])
            real[row, : max(length, 1)] = True
            tail = list(before)[-CONTEXT_CHARACTERS:]
            if tail:
                context[row, -len(tail) :] = tail
            own = tuple(split_tokens(line.ctc_ids.tolist(), SPACE_CLASS)) if with_words else ()
            for word in own:
                span = word_frames(line, word)
                places[0, row, span] = len(pictures)
                offsets = np.clip(counts[row, span] - 1 - word.start, 0, word.stop - word.start - 1)
                places[1, row, span] = offsets
                places[2, row, span] = word.stop - word.start - 1 - offsets
                pictures.append(word_picture(line, word))
            words.append(own)
        stacked = np.stack(pictures) if pictures else np.zeros((0, 3 * FEATURE_DIM), np.float32)
        return cls(
            frames=torch.from_numpy(frames),
            signals=torch.from_numpy(signals),
            counts=torch.from_numpy(counts),
            real=torch.from_numpy(real),
            totals=torch.tensor([len(line.ctc_ids) for line in lines]),
            context=torch.from_numpy(context),
            word_of_frame=torch.from_numpy(places[0]),
            from_start=torch.from_numpy(places[1].clip(0, TOKEN_CHARACTERS - 1)),
            from_end=torch.from_numpy(places[2].clip(0, TOKEN_CHARACTERS - 1)),
            word_pictures=torch.from_numpy(stacked),
            words=tuple(words),
        )

    def rows(self, lines: Sequence[int]) -> LineBatch:
        """Return some of the lines, as far as writing needs them: without their words."""
        some = {name: getattr(self, name)[lines] for name in _OF_A_LINE}
        return replace(self, **some, words=())


_OF_A_LINE = ("frames", "signals", "counts", "real", "totals", "context")


def frame_signals(line: EncodedLine) -> npt.NDArray[np.float32]:
    """Return [frames, 3]: probability of the blank, of the best class, and 1 where a hypothesis character peaks."""
    posteriors = line.top_posteriors.astype(np.float32)
    spikes = np.zeros(len(line.frames), np.float32)
    spikes[line.ctc_frames] = 1
    blank = np.where(line.top_ids == BLANK_CLASS, posteriors, 0).sum(axis=1)
    return np.stack((blank, posteriors[:, 0], spikes), axis=1)


@lru_cache(maxsize=1)
def wave_table(width: int, longest: int = 2048) -> torch.Tensor:
    """Return sinusoids [2 * longest, width] for ``longest`` positions around 0, in steps of half a character."""
    place = torch.arange(-longest, longest).float()[:, None] / 2
    rate = torch.exp(torch.arange(0, width, 2).float() * (-np.log(1000.0) / width))
    return torch.cat((torch.sin(place * rate), torch.cos(place * rate)), dim=1)


def waves(half_places: torch.Tensor, width: int) -> torch.Tensor:
    """Return the sinusoids [..., width] of ``half_places`` [...]: twice the position [characters], an integer."""
    table = wave_table(width)
    return table[(half_places + len(table) // 2).clamp(0, len(table) - 1)]
