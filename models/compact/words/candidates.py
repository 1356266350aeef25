"""Words that an uncertain word might be: known words that are spelt nearly like it.

A source is a set of known words with the form they were seen in. Knows nothing of pictures or scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

DISTANCE_RATIO = 0.4
"""Edits per character of the longer word, up to which a known word is a candidate: at 0.4 a sixth of the true words
are still missed, beyond it mostly false ones come."""
CANDIDATES = 40
"""Of one source for one word; the nearest ones. The true word is rarely further down."""


class KnownWords:
    """Distinct words, found by spelling. Invariant: keys are case-folded, the first form given stays."""

    def __init__(self, forms: Iterable[str]) -> None:
        """Hold ``forms``, words as they are written."""
        self._forms: dict[str, str] = {}
        for form in forms:
            self._forms.setdefault(form.casefold(), form)
        keys = sorted(self._forms, key=len)
        self._keys, self._letters = np.array(keys, object), _letter_sets(keys)
        self._lengths = np.fromiter(map(len, keys), np.int16, len(keys))

    def __len__(self) -> int:
        """Return how many distinct words there are."""
        return len(self._forms)

    def __iter__(self) -> Iterator[str]:
        """Go through the words, each in the form it was first seen in."""
        return iter(self._forms.values())

    def __contains__(self, word: str) -> bool:
        """Return whether ``word`` is known, in any case."""
        return word.casefold() in self._forms

    def near(self, word: str) -> tuple[str, ...]:
        """Return forms of the words spelt nearly like ``word``, nearest first, itself included."""
        key = word.casefold()
        shortest, longest = math.ceil(len(key) * (1 - DISTANCE_RATIO)), int(len(key) / (1 - DISTANCE_RATIO))
        some = slice(*np.searchsorted(self._lengths, (shortest, longest + 1)))
        lengths, letters, own_letters = self._lengths[some], self._letters[some], _letter_sets([key])
        edits = (DISTANCE_RATIO * np.maximum(lengths, len(key))).astype(np.int16)
        # An edit adds at most one letter and takes at most one away; a longer word costs edits that take none.
        longer = lengths - len(key)
        added = np.bitwise_count(letters & ~own_letters) <= edits + np.minimum(longer, 0)
        taken = np.bitwise_count(own_letters & ~letters) <= edits - np.maximum(longer, 0)
        possible = np.flatnonzero(added & taken)
        found = sorted(_within(key, self._keys[some][possible].tolist(), edits[possible]))
        return tuple(self._forms[near] for _, near in found[:CANDIDATES])


def _letter_sets(keys: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return the characters of each key, as bits: 32 for those that occur and 32 for those that occur again.

    Characters that share a bit only weaken the filter.
    """
    return np.array([_letter_set(key) for key in keys], np.uint64)


def _letter_set(key: str) -> int:
    once = again = 0
    for character in key:
        bit = 1 << ord(character) % 32
        again |= once & bit
        once |= bit
    return again << 32 | once


def _within(key: str, possible: Sequence[str], allowed: npt.NDArray[np.int16]) -> Iterable[tuple[int, str]]:
    """Return those of ``possible`` that are as many edits from ``key`` as ``allowed`` for each, with their distance."""
    if not possible:
        return ()
    distance = Levenshtein.distance
    distances = process.cdist([key], possible, scorer=distance, score_cutoff=int(allowed.max()), dtype=np.uint8)[0]
    return ((int(distances[index]), possible[index]) for index in np.flatnonzero(distances <= allowed).tolist())


def in_case_of(hypothesis: str, form: str) -> tuple[str, ...]:
    """Return ``form`` as it may be printed where ``hypothesis`` was read: as it is, and in its case."""
    if hypothesis.isupper() and len(hypothesis) > 1:
        return tuple(dict.fromkeys((form.upper(), form)))
    if hypothesis[:1].isupper():
        return tuple(dict.fromkeys((form[:1].upper() + form[1:], form)))
    return tuple(dict.fromkeys((form, form.lower())))


def keeps(form: str, hypothesis: str, sure: npt.NDArray[np.bool_]) -> bool:
    """Return whether ``form``, in any case, has all letters of ``hypothesis`` that are ``sure`` [letters]."""
    own, key = form.casefold(), hypothesis.casefold()
    if len(key) != len(sure):  # a letter that becomes two when its case is folded
        return True
    return not any(step.tag != "insert" and sure[step.src_pos] for step in Levenshtein.editops(key, own))
