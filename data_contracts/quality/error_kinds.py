"""What kind of characters a reader gets wrong: digits, punctuation, letters, their case, spaces.

A wrong digit changes a fact where a wrong letter seldom does, so the kinds are counted apart. The edits are those of
one shortest alignment; a replaced or dropped character counts for its own kind, an invented one for the kind of what
was invented, so that the kinds of a page add up to its edit distance.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from enum import StrEnum

from rapidfuzz.distance import Editop, Levenshtein


class Kind(StrEnum):
    """A kind of character; ``CASE`` is of errors only: the right letter, but capital for small or small for capital."""

    DIGITS = "digits"
    PUNCTUATION = "punctuation"
    LETTERS = "letters"
    CASE = "case"
    SPACES = "spaces"


def kind_of(character: str) -> Kind:
    """Return the kind of ``character``; symbols such as § and £ are punctuation, marks on letters are letters."""
    if character.isspace():
        return Kind.SPACES
    if character.isdecimal():
        return Kind.DIGITS
    if character.isalnum() or not character.isprintable() or _is_mark(character):
        return Kind.LETTERS
    return Kind.PUNCTUATION


def count_kinds(text: str) -> Counter[Kind]:
    """Return how many characters of each kind ``text`` has."""
    return Counter(map(kind_of, text))


def count_errors(truth: str, reading: str) -> Counter[Kind]:
    """Return how many edits turn ``truth`` into ``reading``, by kind; both normalised already."""
    return Counter(_kind_of_edit(truth, reading, edit) for edit in Levenshtein.editops(truth, reading))


def _kind_of_edit(truth: str, reading: str, edit: Editop) -> Kind:
    if edit.tag == "insert":
        return kind_of(reading[edit.dest_pos])
    removed = truth[edit.src_pos]
    if edit.tag == "replace" and removed.casefold() == reading[edit.dest_pos].casefold():
        return Kind.CASE
    return kind_of(removed)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")
