"""Memories that should help less than a book's own, or not at all: what another book left, or words by chance.

A reader that does as well with one of these owes nothing to what it remembers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from models.compact.words.hypothesis_words import hypothesis_words
from models.compact.words.word_list import load_word_lists
from models.sr_swa.geometry import Geometry
from models.sr_swa.pages import Decoding, EncodedLine, EncodedPage, PageImage

if TYPE_CHECKING:
    from models.compact.decode.verify import Reading
    from models.compact.reader import CompactModel
    from models.sr_swa.context import AttentionContext
    from models.sr_swa.memory.kv import KVBlock
    from models.sr_swa.memory.store import Selector


class Arm:
    """``model`` on pages that the decoder has verified once for all arms: ``readings`` by page number.

    With ``lent`` it remembers another page in place of each that it reads, also by number.
    """

    def __init__(
        self,
        model: CompactModel,
        readings: Mapping[int, Sequence[Reading]],
        lent: Mapping[int, EncodedPage] | None = None,
    ) -> None:
        """Read with ``model``."""
        self._model = model
        self._readings = readings
        self._lent = lent or {}

    @property
    def fingerprint(self) -> str:
        """That of the model, marked."""
        return f"{self._model.fingerprint}/arm"

    @property
    def geometry(self) -> Geometry:
        """That of the model."""
        return self._model.geometry

    def encode_visual(self, image: PageImage) -> EncodedPage:
        """Return what the model sees."""
        return self._model.encode_visual(image)

    def hypothesis_text(self, page: EncodedPage) -> str:
        """Return the model's hypothesis of ``page``."""
        return self._model.hypothesis_text(page)

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Return the words of the page, or of the one lent for it."""
        return self._model.prefill(self._lent.get(page.page_number, page), context)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Write ``page``, and count its words or those of the page lent for it."""
        notes = dict(context.notes)
        decoding = self._model.write(page, self._readings[page.page_number], context)
        if page.page_number in self._lent:
            context.notes = notes
            self._model.remember(self._lent[page.page_number], context)
        return decoding


def lend(pages: Sequence[EncodedPage], others: Sequence[EncodedPage]) -> dict[int, EncodedPage]:
    """Return a page of ``others`` for each of ``pages``, under its number; from the first again where they end."""
    return {
        page.page_number: replace(others[index % len(others)], page_number=page.page_number)
        for index, page in enumerate(pages)
    }


def random_words(pages: Iterable[EncodedPage], characters: Sequence[str], seed: str) -> dict[int, EncodedPage]:
    """Return ``pages`` by number with each word replaced by one as long, drawn from the general lists."""
    chance = random.Random(seed)
    class_of = {character: index for index, character in enumerate(characters) if character}
    by_length: dict[int, list[list[int]]] = {}
    for each in load_word_lists():
        for word in each.words:
            if class_of.keys() >= set(word):
                by_length.setdefault(len(word), []).append([class_of[character] for character in word])
    return {
        page.page_number: replace(
            page, lines=tuple(_reworded(line, characters, by_length, chance) for line in page.lines)
        )
        for page in pages
    }


def _reworded(
    line: EncodedLine, characters: Sequence[str], by_length: Mapping[int, list[list[int]]], chance: random.Random
) -> EncodedLine:
    ids = np.array(line.ctc_ids)
    for word in hypothesis_words(line, characters, continues=False):
        start = word.start + len(word.head)
        if choices := by_length.get(len(word.core)):
            ids[start : start + len(word.core)] = chance.choice(choices)
    return replace(line, ctc_ids=ids)


def noting(select: Selector, fetched: dict[int, list[int]]) -> Selector:
    """Return ``select`` that also adds the page numbers of what it returns to ``fetched[0]``."""

    def watch(store: Any, query: Any, top_k: int) -> Any:
        chosen = select(store, query, top_k)
        fetched[0] += [reference.page_number for reference in chosen]
        return chosen

    return watch
