"""From the order of reading to the order on paper, left to right: where Hebrew and Arabic run against the rest.

Text in a PDF stands as it is printed; whoever extracts it turns what runs from right to left around again. So our
text has to stand that way too. This is the Unicode bidirectional algorithm (UAX #9, rules P2 to L2) for one line
without explicit embeddings or isolates: controls of direction are taken as neutral.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

_RIGHT_TO_LEFT = frozenset({"R", "AL"})
_NUMBERS = frozenset({"EN", "AN"})
_STRONG = frozenset({"L", "R", "AL"})
_SEPARATORS = {"ES": frozenset({"EN"}), "CS": _NUMBERS}

_FIRST_RIGHT_TO_LEFT = "\u0590"


def runs_right_to_left(text: str) -> bool:
    """Tell whether any character of ``text`` belongs to a script that is written from right to left."""
    if max(text, default="") < _FIRST_RIGHT_TO_LEFT:
        return False
    return any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text)


def visual_order(text: str) -> list[int]:
    """Return the positions of the characters of ``text`` in the order in which they stand from left to right."""
    types = [unicodedata.bidirectional(character) for character in text]
    first_strong = next((kind for kind in types if kind in _STRONG), "L")
    base = "L" if first_strong == "L" else "R"
    resolved = _resolve_neutrals(_resolve_numbers(types, base), base)
    return _reversed_by_level([_level(kind, base) for kind in resolved])


def _resolve_numbers(types: list[str], base: str) -> list[str]:
    """Rules W1 to W7: marks follow their letter, signs follow their numbers, numbers follow their script."""
    kinds: list[str] = []
    for kind in types:
        before = kinds[-1] if kinds else base
        kinds.append(before if kind == "NSM" else kind)
    kinds = _after_strong(kinds, base, lambda kind, strong: "AN" if kind == "EN" and strong == "AL" else kind)
    kinds = ["R" if kind == "AL" else kind for kind in kinds]
    for index in range(1, len(kinds) - 1):
        before, kind, after = kinds[index - 1 : index + 2]
        if before == after and before in _SEPARATORS.get(kind, ()):
            kinds[index] = before
    kinds = _signs_beside_numbers(kinds)
    kinds = ["ON" if kind in ("ES", "ET", "CS") else kind for kind in kinds]
    return _after_strong(kinds, base, lambda kind, strong: "L" if kind == "EN" and strong == "L" else kind)


def _after_strong(kinds: list[str], base: str, change: Callable[[str, str], str]) -> list[str]:
    """Return every kind as ``change`` makes it of itself and of the last strong kind before it."""
    changed, strong = [], base
    for kind in kinds:
        strong = kind if kind in _STRONG else strong
        changed.append(change(kind, strong))
    return changed


def _signs_beside_numbers(kinds: list[str]) -> list[str]:
    """Rule W5: per cent, degree and currency signs in a row beside a European number are part of it."""
    stretches = [(kind, len(list(group))) for kind, group in groupby(kinds)]
    changed: list[str] = []
    for index, (kind, length) in enumerate(stretches):
        beside = {stretches[place][0] for place in (index - 1, index + 1) if 0 <= place < len(stretches)}
        changed += ["EN" if kind == "ET" and "EN" in beside else kind] * length
    return changed


def _resolve_neutrals(kinds: list[str], base: str) -> list[str]:
    """Rules N1 and N2: what stands between two of one direction has it too; all else has the line's."""
    stretches = [(key, list(group)) for key, group in groupby(kinds, _direction)]
    resolved: list[str] = []
    for index, (direction, stretch) in enumerate(stretches):
        if direction is not None:
            resolved += stretch
            continue
        before = stretches[index - 1][0] if index else base
        after = stretches[index + 1][0] if index + 1 < len(stretches) else base
        resolved += [before if before == after and before else base] * len(stretch)
    return resolved


def _direction(kind: str) -> str | None:
    return "L" if kind == "L" else "R" if kind == "R" or kind in _NUMBERS else None


def _level(kind: str, base: str) -> int:
    """Rules I1 and I2."""
    if base == "L":
        return {"L": 0, "R": 1}.get(kind, 2)
    return 1 if kind == "R" else 2


def _reversed_by_level(levels: list[int]) -> list[int]:
    """Rule L2: from the highest level down, whatever stands at it or above is turned around."""
    order = list(range(len(levels)))
    for level in range(max(levels, default=0), 0, -1):
        order = _turned_where(order, [levels[position] >= level for position in order])
    return order


def _turned_where(order: list[int], is_above: list[bool]) -> list[int]:
    turned: list[int] = []
    for above, group in groupby(zip(is_above, order, strict=True), itemgetter(0)):
        stretch = [position for _, position in group]
        turned += stretch[::-1] if above else stretch
    return turned
