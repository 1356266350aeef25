"""Words that an uncertain word might be: known words that are spelt nearly like it.

A source is a set of known words with the form they were seen in. Knows nothing of pictures or scores.
"""

from __future__ import annotations

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
        by_length: dict[int, list[str]] = {}
        for key in sorted(self._forms):
            by_length.setdefault(len(key), []).append(key)
        self._by_length = {length: (np.array(keys, object), _letter_sets(keys)) for length, keys in by_length.items()}

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
        own_letters = _letter_sets([key])
        possible: list[str] = []
        allowed: list[int] = []
        for length, (keys, letters) in self._by_length.items():
            edits = int(DISTANCE_RATIO * max(length, len(key)))
            if abs(length - len(key)) <= edits:
                # An edit adds at most one letter and takes at most one away; a longer word costs edits that take none.
                adds, takes = edits - max(0, len(key) - length), edits - max(0, length - len(key))
                added = np.bitwise_count(letters & ~own_letters) <= adds
                possible += keys[added & (np.bitwise_count(own_letters & ~letters) <= takes)].tolist()
                allowed += [edits] * (len(possible) - len(allowed))
        return tuple(self._forms[found] for _, found in sorted(_within(key, possible, allowed))[:CANDIDATES])


def _letter_sets(keys: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return the set of characters of each key, as bits; characters that share a bit only weaken the filter."""
    return np.array([sum(1 << bit for bit in {ord(character) % 64 for character in key}) for key in keys], np.uint64)


def _within(key: str, possible: Sequence[str], allowed: Sequence[int]) -> Iterable[tuple[int, str]]:
    """Return those of ``possible`` that are as many edits from ``key`` as ``allowed`` for each, with their distance."""
    if not possible:
        return ()
    distance = Levenshtein.distance
    distances = process.cdist([key], possible, scorer=distance, score_cutoff=max(allowed), dtype=np.uint8)[0]
    return ((int(distances[index]), possible[index]) for index in np.flatnonzero(distances <= allowed).tolist())


def in_case_of(drafted: str, form: str) -> tuple[str, ...]:
    """Return ``form`` as it may be printed where ``drafted`` was read: as it is, and in the case of ``drafted``."""
    if drafted.isupper() and len(drafted) > 1:
        return tuple(dict.fromkeys((form.upper(), form)))
    if drafted[:1].isupper():
        return tuple(dict.fromkeys((form[:1].upper() + form[1:], form)))
    return tuple(dict.fromkeys((form, form.lower())))


def keeps(form: str, drafted: str, sure: npt.NDArray[np.bool_]) -> bool:
    """Return whether ``form``, in any case, has all letters of ``drafted`` that are ``sure`` [letters]."""
    own, key = form.casefold(), drafted.casefold()
    if len(key) != len(sure):  # a letter that becomes two when its case is folded
        return True
    return not any(step.tag != "insert" and sure[step.src_pos] for step in Levenshtein.editops(key, own))
