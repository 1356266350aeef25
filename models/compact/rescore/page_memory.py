"""What a page leaves in the memory: one token a word, found again by its picture.

A word's *picture* is its first, mean and last frame [360]; it says nothing of where the word stood. Key and value
are both the picture: the memory has no weights of its own, a decoder puts its projections on top. Only words of which
the hypothesis is sure enter, without the punctuation around them, so that a name is one thing wherever it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from data_contracts.geometry import Box
from models.compact.line_shape import strip
from models.compact.onnx_weights import BLANK_CLASS, FEATURE_DIM
from models.compact.recognise.recognizer import CtcHypothesis
from models.compact.words.document_words import DocumentWords
from models.compact.words.split import TOKEN_CHARACTERS, WordSpan, split_words
from models.compact.words.word_list import WordList, load_word_lists
from models.compact.words.word_tokens import word_ids, word_picture
from models.sr_swa.geometry import Geometry
from models.sr_swa.memory.kv import KVBlock
from models.sr_swa.memory.store import RARITY
from models.sr_swa.pages import EncodedLine, EncodedPage

PAGE_TOKENS = 512
"""Words held of a page: a dense page of prose has 400; of a fuller one the rarest are held."""
UNLISTED_RARITY = 100.0
"""Above any number of letters."""
MEMORY_CONFIDENCE = 0.8
"""Least posterior of a word's characters: a misread name must not become the model of the next one."""

GEOMETRY = Geometry(
    layers=1,
    kv_heads=1,
    head_dim=3 * FEATURE_DIM,
    page_tokens=PAGE_TOKENS,
    dtype=torch.float16,
    rope_theta=None,
    landmarks="tokens",
    payload={
        "char_ids": ((TOKEN_CHARACTERS,), torch.int32),
        "confidence": ((1,), torch.float32),
        "box": ((4,), torch.float32),
        RARITY: ((), torch.float32),
    },
)
"""Half precision loses nothing: frames are stored in it."""


@dataclass(frozen=True)
class _Token:
    """A word on its way into the memory; ``char_ids`` [24] end with the blank's id where the word is shorter."""

    picture: npt.NDArray[np.float16]
    char_ids: npt.NDArray[np.int32]
    confidence: float
    box: Box
    letters: int


def page_block(page: EncodedPage, characters: Sequence[str]) -> KVBlock:
    """Return the high-confidence words of ``page`` as keys and values, in reading order. ``characters`` map class ids.

    A word is rarer the longer it is and the less often it stands on the page, and rarer than all others if the general
    list of the page's language lacks it: nothing but memory will know it again. No count of other pages enters, so
    that a page's block is a function of the page.
    """
    tokens = [token for line in page.lines for token in _tokens(line, characters)]
    times = Counter(token.char_ids.tobytes() for token in tokens)
    texts = ["".join(characters[index] for index in token.char_ids if index != BLANK_CLASS) for token in tokens]
    lists = DocumentWords().written_in(texts, load_word_lists())
    rarity = np.asarray(
        [
            token.letters / times[token.char_ids.tobytes()] + UNLISTED_RARITY * is_unlisted(text, lists)
            for token, text in zip(tokens, texts, strict=True)
        ],
        np.float32,
    )
    kept = np.sort(np.argsort(-rarity, kind="stable")[:PAGE_TOKENS])
    return _block(page.page_number, [tokens[index] for index in kept], rarity[kept])


def is_unlisted(word: str, lists: Sequence[WordList]) -> bool:
    """Tell whether there are ``lists`` and none of them has ``word``, which is one of letters only."""
    return bool(lists) and word.isalpha() and not any(word in each.words for each in lists)


def _tokens(line: EncodedLine, characters: Sequence[str]) -> Iterator[_Token]:
    shares = CtcHypothesis.of(line).shares
    for word in _cores(line, characters):
        confidence = float(line.ctc_posteriors[word.start : word.stop].min())
        if confidence < MEMORY_CONFIDENCE:
            continue
        box = Box.around(strip(line.quad, line.direction, float(shares[word.start]), float(shares[word.stop - 1])))
        picture = word_picture(line, word).astype(np.float16)
        yield _Token(picture, word_ids(line, word), confidence, box, word.stop - word.start)


def _cores(line: EncodedLine, characters: Sequence[str]) -> list[WordSpan]:
    """Return the words from their first letter or digit to their last; words of marks only are none."""
    written = [characters[index] for index in line.ctc_ids]
    cores = []
    for word in split_words(written):
        inner = [index for index in range(word.start, word.stop) if written[index].isalnum()]
        if inner:
            cores.append(WordSpan(inner[0], inner[-1] + 1))
    return cores


def _block(page_number: int, tokens: Sequence[_Token], rarity: npt.NDArray[np.float32]) -> KVBlock:
    keys = _keys([token.picture for token in tokens])
    boxes = [(token.box.left, token.box.top, token.box.right, token.box.bottom) for token in tokens]
    ids = np.asarray([token.char_ids for token in tokens], np.int32).reshape(-1, TOKEN_CHARACTERS)
    return KVBlock(
        page_number=page_number,
        keys=keys,
        values=keys.clone(),
        positions=torch.arange(len(tokens)),
        payload={
            "char_ids": torch.from_numpy(ids),
            "confidence": torch.tensor([token.confidence for token in tokens]).view(-1, 1),
            "box": torch.tensor(boxes, dtype=torch.float32).view(-1, 4),
            RARITY: torch.from_numpy(rarity),
        },
    )


def _keys(pictures: Sequence[npt.NDArray[np.float16]]) -> torch.Tensor:
    stacked = np.asarray(pictures, np.float16).reshape(1, 1, -1, GEOMETRY.head_dim)
    return torch.from_numpy(stacked)
