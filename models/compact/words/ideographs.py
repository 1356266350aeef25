"""Which characters are of a script written without spaces between words."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = (
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3040, 0x30FF),  # kana
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


def is_ideographic(character: str) -> bool:
    """Tell whether ``character`` is of a script written without spaces between words (Chinese, Japanese)."""
    code = ord(character)
    return code >= _BLOCKS[0][0] and any(first <= code <= last for first, last in _BLOCKS)


def is_mostly_ideographic(characters: Sequence[str]) -> bool:
    """Tell whether more than half of the letters and digits among ``characters`` are ideographs or kana."""
    letters = [character for character in characters if character.isalnum()]
    return 2 * sum(map(is_ideographic, letters)) > len(letters)
