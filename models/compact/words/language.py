"""Tells in which language words are written: by the share of them that a language's own words are.

Three questions are asked with it. Which language has a page, of those whose thousand commonest words are known
(``page_language``); is a page French, where only a few words are needed (``is_french``); and is a document in the
language of a general list (``DocumentWords.written_in``).

A thousand words (``common_words.json``, made by ``training/common_words.py``) are two thirds of any text and hardly
ever those of another language, and they are short and common enough to be read with confidence on a bad scan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

COMMON_WORDS_FILE = Path(__file__).with_name("common_words.json")
LEAST_WORDS = 30
"""Confident words before a language is believed: where 0.15 of all words are common ones, as of Dutch for German, 0.35
of 30 are so by chance on one page in 300."""
COMMON_SHARE = 0.35
"""Share of a page's words that are common ones. Pieces of 250 words of held-out novels have 0.49 to 0.91, in French of
the 16th to 18th century too; pieces of seven other European languages 0.15 at most."""
LEAST_LETTERS = 3
"""Shorter words occur in many languages."""
_FRENCH = "au aux ce ces dans de des du elle est et il ils la le les leur ne nous par pas pour que qui"
FRENCH_WORDS = frozenset(_FRENCH.split())
FRENCH_SHARE = 0.1
"""Share of these among a page's words above which it is French. Over 300 words of a French novel it is 0.18 and more,
of German and English books 0.03 and less."""
_I = str.maketrans("ıİ", "ii")
"""The recogniser knows a dotless i and a dotted capital; on a French page both are an i."""


class WordShare(NamedTuple):
    """Of ``asked`` words, ``known`` are a language's own."""

    asked: int = 0
    known: int = 0

    def reaches(self, least_words: int, least_share: float) -> bool:
        """Return whether so many words were asked and such a share of them is known."""
        return self.asked >= least_words and self.known >= least_share * self.asked

    def plus(self, other: WordShare) -> WordShare:
        """Return the share of both together."""
        return WordShare(self.asked + other.asked, self.known + other.known)


def known_share(words: Collection[str], is_own: Callable[[str], bool]) -> WordShare:
    """Return how many of ``words``, which are without capitals, a language has as its own."""
    return WordShare(len(words), sum(map(is_own, words)))


def counted(words: Iterable[str]) -> list[str]:
    """Return those of ``words`` that are peculiar to a language, without capitals."""
    return [word.casefold() for word in words if len(word) >= LEAST_LETTERS and word.isalpha()]


def page_language(words: Iterable[str], common: Mapping[str, Collection[str]]) -> str | None:
    """Return the language whose ``common`` words are most of the page's ``words``; None if they are few in all."""
    asked = counted(words)
    shares = {language: known_share(asked, usual.__contains__) for language, usual in common.items()}
    best = max(shares, key=lambda language: (shares[language].known, language))
    return best if shares[best].reaches(LEAST_WORDS, COMMON_SHARE) else None


def is_french(words: Iterable[str]) -> bool:
    """Return whether the ``words`` of a page, runs of letters, are French."""
    share = known_share([word.translate(_I).casefold() for word in words], FRENCH_WORDS.__contains__)
    return share.known > FRENCH_SHARE * share.asked


@cache
def common_words() -> dict[str, frozenset[str]]:
    """Return the commonest words by language, without capitals."""
    return {language: frozenset(words.split(" ")) for language, words in json.loads(_data()).items()}


@cache
def common_words_sha256() -> str:
    """Return the digest of what distinguishes languages."""
    return hashlib.sha256(_data()).hexdigest()


def _data() -> bytes:
    return COMMON_WORDS_FILE.read_bytes()
