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
        found: list[tuple[int, str]] = []
        for length, (keys, letters) in self._by_length.items():
            edits = int(DISTANCE_RATIO * max(length, len(key)))
            if abs(length - len(key)) <= edits:
                # An edit changes at most two members of the set of letters: cheap, and rules out nine words of ten.
                possible = np.flatnonzero(np.bitwise_count(letters ^ own_letters) <= 2 * edits)
                found += _within(key, keys[possible].tolist(), edits)
        return tuple(self._forms[key] for _, key in sorted(found)[:CANDIDATES])


def _letter_sets(keys: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return the set of characters of each key, as bits; characters that share a bit only weaken the filter."""
    return np.array([sum(1 << bit for bit in {ord(character) % 64 for character in key}) for key in keys], np.uint64)


def _within(key: str, keys: Sequence[str], edits: int) -> Iterable[tuple[int, str]]:
    if not keys:
        return ()
    distances = process.cdist([key], keys, scorer=Levenshtein.distance, score_cutoff=edits, dtype=np.uint8)[0]
    return ((int(distances[index]), keys[index]) for index in np.flatnonzero(distances <= edits).tolist())


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
