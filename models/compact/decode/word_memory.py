"""Attention from the words of a page to words of earlier pages, found by their pictures."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from models.compact.decode.half_linear import HalfLinear
from models.compact.decode.line_batch import LineBatch
from models.compact.onnx_weights import BLANK_CLASS, FEATURE_DIM

COPIED_WORDS = 8
"""Memory words whose letters are shown to a word: the best ones."""
HIDDEN = -1e9
"""Score of what may not be seen."""


@dataclass(frozen=True)
class DecoderShape:
    """Sizes; part of the weights file."""

    width: int = 192
    heads: int = 4
    layers: int = 3
    hidden: int = 576
    pointer_dim: int = 96
    memory_dim: int = 96
    dropout: float = 0.1


@dataclass(frozen=True, eq=False)
class WordTokens:
    """Words of earlier pages: ``keys`` and ``values`` [words, dim], ``payload`` ids [words, 24].

    ``visible`` [words of the batch, words of the memory], if given, says which word may see which.
    """

    keys: torch.Tensor
    values: torch.Tensor
    payload: torch.Tensor
    visible: torch.Tensor | None = None


class WordMemory(nn.Module):
    """Attention from the words of a hypothesis to words of earlier pages, by their pictures; null key included.

    A word is searched for before its first letter is written, so that no written letter can mislead the search. What
    comes back is laid on the word's frames: the found words' letters at the frame's place from the word's start and
    from its end, and a value. A learnt gate, closed at first, decides how much of it is seen.
    """

    def __init__(self, shape: DecoderShape) -> None:
        """Make untrained weights."""
        super().__init__()
        self.query = HalfLinear(3 * FEATURE_DIM, shape.memory_dim)
        self.key = HalfLinear(3 * FEATURE_DIM, shape.memory_dim)
        self.value = HalfLinear(3 * FEATURE_DIM, shape.memory_dim)
        self.null_key = nn.Parameter(torch.zeros(shape.memory_dim))
        self.null_bias = nn.Parameter(torch.tensor(6.0))
        self.sharpness = nn.Parameter(torch.tensor(10.0))
        self.letters = HalfLinear(2 * FEATURE_DIM + shape.memory_dim, shape.width)
        self.gate = HalfLinear(shape.width + 2, 1)
        nn.init.zeros_(self.letters.weight)
        nn.init.zeros_(self.letters.bias)

    def tokens(self, pictures: torch.Tensor, payload: torch.Tensor) -> WordTokens:
        """Return the tokens of words with ``pictures`` [words, 360] and ``payload`` [words, 24]."""
        return WordTokens(F.normalize(self.key(pictures), dim=-1), self.value(pictures), payload)

    def forward(
        self, batch: LineBatch, states: torch.Tensor, words: WordTokens, embeddings: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``states`` [lines, frames, width] with what was recalled, and the recall [words, memory + 1]."""
        query = F.normalize(self.query(batch.word_pictures), dim=-1) * self.sharpness
        scores = query @ words.keys.mT
        if words.visible is not None:
            scores = scores.masked_fill(~words.visible, HIDDEN)
        null = (query @ self.null_key)[:, None] + self.null_bias
        recall = torch.softmax(torch.cat((scores, null), dim=1), dim=1)
        best = recall[:, :-1].topk(min(COPIED_WORDS, len(words.keys)), dim=1)
        found = best.values[:, None, :] @ words.values[best.indices]
        frame_word = batch.word_of_frame.clamp_min(0)
        places = torch.stack((batch.from_start, batch.from_end), dim=-1)
        letters = self._letters_at(places, frame_word, best.values, words.payload[best.indices], embeddings)
        mass = 1 - recall[:, -1]
        seen = self.letters(torch.cat((letters, found[frame_word, 0]), dim=-1))
        surest = best.values[:, :1].sum(dim=1)
        gate = torch.sigmoid(self.gate(torch.cat((states, mass[frame_word, None], surest[frame_word, None]), dim=-1)))
        inside = (batch.word_of_frame >= 0)[..., None]
        return states + torch.where(inside, gate * seen, 0.0), recall

    def _letters_at(
        self,
        places: torch.Tensor,
        frame_word: torch.Tensor,
        weights: torch.Tensor,
        payload: torch.Tensor,
        embeddings: torch.Tensor,
    ) -> torch.Tensor:
        """Return the found words' letters [lines, frames, 240] at ``places`` from the start and from the end."""
        lengths = (payload != BLANK_CLASS).sum(dim=-1)
        own, weight = payload[frame_word], weights[frame_word]
        ends = (lengths[frame_word] - 1 - places[..., 1:]).clamp_min(0)
        ids = (own.gather(-1, place[..., None]) for place in (places[..., :1].expand_as(ends), ends))
        shown = [weight[..., None, :] @ embeddings[chosen.squeeze(-1)] for chosen in ids]
        return torch.cat(shown, dim=-1).squeeze(-2)
