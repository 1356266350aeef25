"""What a document's own confident words say: how often each occurred, and which word lists it is written in.

Travels in the state as JSON and is bounded: the counts by the number of entries, the rest by the number of lists.
Only words of finished pages are in it, as the hypothesis had them: no correction of ours ever feeds back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

from models.compact.words.language import WordShare, counted, known_share
from models.compact.words.word_list import WordList

CAPACITY_WORDS = 4096
"""Distinct words counted: those of a long novel that occur more than a few times."""
LIST_MIN_WORDS = 60
"""Confident words before a list may be believed: about a quarter of a page."""
LIST_SHARE = 0.75
"""Share of a document's words that its language's list knows: 0.9 and more in English books full of names, below
half in French and German ones."""


class DocumentWords:
    """Counts by case-folded word. Invariant: at most 4,096; the rarest goes first, of equals the longest unseen.

    Entries are replaced and never changed: what ``from_json`` was given and what ``as_json`` gave stay as they are.
    """

    def __init__(self) -> None:
        """Nothing has been read."""
        self._counts: dict[str, list[int]] = {}
        self._listed: dict[str, list[int]] = {}

    @classmethod
    def from_json(cls, notes: Mapping[str, Any]) -> Self:
        """Take up what ``as_json`` gave; an empty mapping is a new document."""
        words = cls()
        words._counts = dict(notes.get("counts", {}))
        words._listed = dict(notes.get("listed", {}))
        return words

    def as_json(self) -> dict[str, Any]:
        """Return all of it: word -> [count, page last seen on]; list -> [words asked, words known]."""
        return {"counts": self._counts, "listed": self._listed}

    def __len__(self) -> int:
        """Return how many words are counted."""
        return len(self._counts)

    def count(self, word: str) -> int:
        """Return how often ``word`` was read with confidence on earlier pages."""
        return self._counts.get(word.casefold(), (0, 0))[0]

    def add_page(self, words: Iterable[str], page_number: int, lists: Iterable[WordList]) -> None:
        """Count the confident ``words`` of a finished page, and for each list how many of them it knows."""
        folded = [word.casefold() for word in words]
        for word, times in sorted(Counter(folded).items()):
            self._counts[word] = [self.count(word) + times, page_number]
        excess = len(self._counts) - CAPACITY_WORDS
        if excess > 0:
            rarest = sorted(self._counts, key=lambda word: (*self._counts[word], word))
            for word in rarest[:excess]:
                del self._counts[word]
        for name, share in self._shares(folded, lists).items():
            self._listed[name] = list(share)

    def written_in(self, words: Iterable[str], lists: Iterable[WordList]) -> list[WordList]:
        """Return those of ``lists`` that know the document's language, judged by it and the ``words`` of this page."""
        lists = list(lists)
        shares = self._shares([word.casefold() for word in words], lists)
        return [each for each in lists if shares[each.name].reaches(LIST_MIN_WORDS, LIST_SHARE)]

    def _shares(self, folded: Iterable[str], lists: Iterable[WordList]) -> dict[str, WordShare]:
        """Return, by list, which share of all words so far it knows, ``folded`` included."""
        asked = counted(folded)
        before = {each.name: WordShare(*self._listed.get(each.name, (0, 0))) for each in lists}
        return {each.name: before[each.name].plus(known_share(asked, each.words.__contains__)) for each in lists}
