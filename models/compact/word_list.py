"""General word lists, one a language: words that a document may use before it has used them.

A list is data with a licence of its own (NOTICE). Whether a document is written in its language is not configured;
``DocumentWords`` finds out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from models.compact.candidates import KnownWords

FOLDER = Path(__file__).with_name("word_lists")


@dataclass(frozen=True)
class WordList:
    """The words of one language, names with their capital letter."""

    name: str
    words: KnownWords


@cache
def load_word_lists(folder: Path = FOLDER) -> tuple[WordList, ...]:
    """Return the lists that come with the model; none is a valid answer."""
    return tuple(_load(path) for path in sorted(folder.glob("*.json")))


def word_list(name: str, words: Iterable[str]) -> WordList:
    """Make a list of ``words``."""
    return WordList(name, KnownWords(words))


def _load(path: Path) -> WordList:
    return word_list(path.stem, json.loads(path.read_text(encoding="utf-8"))["words"].split(" "))
