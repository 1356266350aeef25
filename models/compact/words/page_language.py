"""Tells in which language a page is written, by the commonest words of each: ``common_words.json``.

A thousand words are two thirds of any text and hardly ever those of another language, and they are short and common
enough to be read with confidence on a bad scan. Made by ``training/common_words.py``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

COMMON_WORDS_FILE = Path(__file__).with_name("common_words.json")
LEAST_WORDS = 30
"""Confident words before a language is believed: where 0.15 of all words are common ones, as of Dutch for German, 0.35
of 30 are so by chance on one page in 300."""
COMMON_SHARE = 0.35
"""Share of a page's words that are common ones. Pieces of 250 words of held-out novels have 0.49 to 0.91, in French of
the 16th to 18th century too; pieces of seven other European languages 0.15 at most."""
LEAST_LETTERS = 3
"""Shorter words occur in many languages."""


@cache
def common_words() -> dict[str, frozenset[str]]:
    """Return the commonest words by language, without capitals."""
    return {language: frozenset(words.split(" ")) for language, words in json.loads(_data()).items()}


@cache
def common_words_sha256() -> str:
    """Return the digest of what distinguishes languages."""
    return hashlib.sha256(_data()).hexdigest()


def counted(words: Iterable[str]) -> list[str]:
    """Return those of ``words`` that are peculiar to a language, without capitals."""
    return [word.casefold() for word in words if len(word) >= LEAST_LETTERS and word.isalpha()]


def page_language(words: Iterable[str], common: Mapping[str, Collection[str]]) -> str | None:
    """Return the language whose ``common`` words are most of the page's ``words``; None if they are few in all."""
    asked = counted(words)
    known = {language: sum(word in usual for word in asked) for language, usual in common.items()}
    best = max(known, key=lambda language: (known[language], language))
    return best if len(asked) >= LEAST_WORDS and known[best] >= COMMON_SHARE * len(asked) else None


def _data() -> bytes:
    return COMMON_WORDS_FILE.read_bytes()
