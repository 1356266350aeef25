"""General word lists, one a language: words that a document may use before it has used them.

A list is data with a licence of its own (NOTICE). Whether a document is written in its language is not configured;
``DocumentWords`` finds out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from models.compact.words.candidates import KnownWords

FOLDER = Path(__file__).with_name("word_lists")
CACHED_WORDS = 8192
"""Distinct hypotheses whose answers are remembered: a few chapters' worth."""


@dataclass(frozen=True)
class WordList:
    """The words of one language, names with their capital letter. ``sha256`` is that of the file."""

    name: str
    words: KnownWords
    sha256: str = ""

    @cached_property
    def near(self) -> Callable[[str], tuple[str, ...]]:
        """``words.near``, remembering its last answers: a list is large, and hypotheses repeat."""
        return lru_cache(CACHED_WORDS)(self.words.near)


@cache
def load_word_lists(folder: Path = FOLDER) -> tuple[WordList, ...]:
    """Return the lists that come with the model; none is a valid answer."""
    return tuple(_load(path) for path in sorted(folder.glob("*.json")))


def _load(path: Path) -> WordList:
    data = path.read_bytes()
    return WordList(path.stem, KnownWords(json.loads(data)["words"].split(" ")), hashlib.sha256(data).hexdigest())
