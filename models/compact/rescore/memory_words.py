"""The words that blocks of the memory spell, found by spelling and by picture.

A word whose letters are hardly legible may be spelt unlike anything and still resemble itself: of 756 misread words
that stood on an earlier page of a degraded book, 683 were found by spelling, 703 among the 40 most alike pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from models.compact.onnx_weights import BLANK_CLASS
from models.compact.words.candidates import KnownWords
from models.compact.words.hypothesis_words import is_mostly_letters
from models.compact.words.split import split_at_dashes
from models.sr_swa.memory.kv import KVBlock

ALIKE_WORDS = 16
"""Words taken for their pictures: the true one, if it is there, mostly comes first."""

CACHED_TOKENS = 16384
"""Distinct tokens whose words are remembered: those of window and store, which come again with every page."""


Spelling: TypeAlias = Callable[[bytes], tuple[str, tuple[tuple[str, str], ...]]]
"""From a token's ``char_ids``, as bytes, to its text and its words, each also case-folded."""


def spelling_of(characters: Sequence[str]) -> Spelling:
    """Return how tokens are spelt with ``characters`` [classes]."""

    @lru_cache(CACHED_TOKENS)
    def spell(char_ids: bytes) -> tuple[str, tuple[tuple[str, str], ...]]:
        ids = np.frombuffer(char_ids, np.int32)
        text = "".join(characters[index] for index in ids if index != BLANK_CLASS)
        apart = [word.cut(text) for word in split_at_dashes(text)]
        return text, tuple((word, word.casefold()) for word in apart if is_mostly_letters(word))

    return spell


class MemoryWords:
    """Words of ``blocks``, each with the tokens that spell it. A token of two words with a dash stands for both."""

    def __init__(self, blocks: Iterable[KVBlock], spelling: Spelling) -> None:
        """Take payload ``char_ids`` and keys [1, 1, tokens, 360] of ``blocks``, which may be released."""
        self._tokens: dict[int, int] = {}
        self._tokens_of: dict[str, dict[int, list[int]]] = {}
        forms: list[str] = []
        spelt: list[str] = []
        pictures: list[npt.NDArray[np.float16]] = []
        for block in blocks:
            self._tokens[block.page_number] = block.tokens
            keys = block.keys[0, 0].numpy()
            for token, ids in enumerate(block.payload["char_ids"].numpy()):
                token_text, words = spelling(ids.tobytes())
                for form, key in words:
                    self._tokens_of.setdefault(key, {}).setdefault(block.page_number, []).append(token)
                    forms.append(form)
                    if form == token_text:  # a part of a token has no picture of its own
                        spelt.append(form)
                        pictures.append(keys[token])
        self._known = KnownWords(forms)
        self._spelt = spelt
        self._pictures, self._middle = _directions(pictures)

    def candidates(self, core: str, picture: npt.NDArray[np.float16]) -> list[str]:
        """Return words that are spelt nearly like ``core`` or resemble ``picture`` [360]."""
        return [*self._known.near(core), *self._alike(picture)]

    def tokens_of(self, word: str) -> dict[int, list[int]]:
        """Return the tokens that spell ``word``, in any case, by page number."""
        return self._tokens_of.get(word.casefold(), {})

    def tokens(self, page_number: int) -> int:
        """Return how many tokens the block of a page has."""
        return self._tokens[page_number]

    def _alike(self, picture: npt.NDArray[np.float16]) -> list[str]:
        if not self._spelt:
            return []
        unlikeness = self._pictures @ (self._middle - picture.astype(np.float32))
        last = min(ALIKE_WORDS, len(unlikeness)) - 1
        near = np.flatnonzero(unlikeness <= np.partition(unlikeness, last)[last])
        best = near[np.argsort(unlikeness[near], kind="stable")[:ALIKE_WORDS]]
        return [self._spelt[index] for index in best]


def _directions(
    pictures: Sequence[npt.NDArray[np.float16]],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return ``pictures`` as unit vectors [words, 360] around their mean, and the mean: all frames are much alike."""
    if not pictures:
        return np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
    stacked = np.asarray(pictures, np.float32)
    middle = stacked.mean(0)
    stacked -= middle
    return stacked / np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), 1e-6), middle
