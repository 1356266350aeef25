"""The characters of the Latin head: those that prints and typescripts of Europe are made of, as they are printed.

A class of the trained head is either one of PP-OCRv6's own or new; a new one begins as the class that it looks most
like, so that what the network already sees is told apart instead of learnt afresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NEW_CHARACTERS = {
    "ꝛ": "r",
    "⸗": "=",
    "\N{COMBINING LATIN SMALL LETTER E}": "e",
    "ẽ": "ê",
    "ũ": "û",
    "„": "”",
    "⁊": "z",
    "\N{COMBINING TILDE}": "~",
    "ꝑ": "p",
    "ꝗ": "q",
    "ꝰ": "9",
    "¡": "!",
}
"""What old print has and PP-OCRv6 lacks, each with the character that it begins as."""
RANGES = ((0x20, 0x7E), (0xA1, 0x17F), (0x2010, 0x2026), (0x2030, 0x203A))
"""Code points that the head keeps where PP-OCRv6 has them: Latin with accents, and punctuation."""
ALSO_KEPT = "€™№†‡•§¶°"
NEVER = "ĳĲŉ"
"""Ligatures that transcriptions resolve."""


@dataclass(frozen=True)
class Alphabet:
    """The classes of the trained head, the blank first.

    ``rows`` gives each class the class of PP-OCRv6 that it is, or None; ``like`` the class that it begins as.
    """

    characters: tuple[str, ...]
    rows: tuple[int | None, ...]
    like: tuple[int, ...]

    def encode(self, text: str) -> list[int] | None:
        """Return the class ids of ``text``; None when a character is not in the alphabet."""
        ids = [self._ids.get(character, 0) for character in text]
        return ids if all(ids) else None

    def decode(self, ids: Sequence[int]) -> str:
        """Return the characters of ``ids``."""
        return "".join(self.characters[index] for index in ids)

    @property
    def _ids(self) -> dict[str, int]:
        return {character: index for index, character in enumerate(self.characters) if character}


def latin_alphabet(characters: Sequence[str]) -> Alphabet:
    """Return the Latin part of a network's ``characters`` (blank first) and the new ones after it."""
    kept = [
        index
        for index, character in enumerate(characters)
        if index and len(character) == 1 and _is_kept(character) and character not in NEVER
    ]
    known = {characters[index]: index for index in kept}
    new = [character for character in NEW_CHARACTERS if character not in known]
    return Alphabet(
        ("", *(characters[index] for index in kept), *new),
        (0, *kept, *(None for _ in new)),
        (0, *kept, *(known[NEW_CHARACTERS[character]] for character in new)),
    )


def _is_kept(character: str) -> bool:
    code = ord(character)
    return character in ALSO_KEPT or any(first <= code <= last for first, last in RANGES)
