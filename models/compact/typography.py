"""What the shapes of a line do not tell: old-style noughts are figures, a thin space is no space.

Old founts cast the nought as a round ``o`` and the one as a small ``I``, and printers set a thin space before
``; : ? !``. In the picture these are letters and spaces; what stands beside them tells what they are. Knows the
drafts of one page, no dictionary and no other page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.sr_swa.protocol import EncodedLine

NOUGHTS = {"o": "0", "O": "0"}
FIGURES = {**NOUGHTS, "l": "1", "I": "1", "z": "2", "Z": "2", "g": "9"}
"""Letters that are figures when all else in their word is. At its ends only noughts are: 10l are pounds, 3g grams."""
FEWEST_CHARACTERS = 3
"""A shorter word stays as it was read: 8o is octavo, 1o primo."""
FRENCH_WORDS = frozenset("au aux ce ces dans de des du elle est et il ils la le les leur ne nous par pas pour que qui".split())
FRENCH_RATIO = 0.1
"""Share of these among a page's words above which it is French, where a space before ``; : ? !`` is part of the
spelling. Over 300 words of a French novel it is 0.18 and more, of German and English books 0.03 and less."""

_END, _INSIDE = "".join(NOUGHTS), "".join(FIGURES)
_NUMBER = re.compile(
    rf"(?<![^\W_])(?=[^\W\d_]*\d)[\d{_END}][\d{_INSIDE}]*[\d{_END}](?=(?:st|nd|rd|th|d|s)?(?![^\W_]))"
)
_THIN_SPACE = re.compile(r"(?<=\S) +(?=[;:?!])")


def as_printed(lines: Sequence[EncodedLine], characters: Sequence[str]) -> tuple[EncodedLine, ...]:
    """Return the lines of a page with figures in their numbers and without thin spaces; ``characters`` map ids."""
    class_of = {character: index for index, character in enumerate(characters)}
    texts = ["".join(characters[index] for index in line.draft_ids) for line in lines]
    numbered = [_with_figures(line, text, class_of) for line, text in zip(lines, texts, strict=True)]
    if is_french(texts):
        return tuple(numbered)
    return tuple(_without_thin_spaces(line, text) for line, text in zip(numbered, texts, strict=True))


def is_french(texts: Sequence[str]) -> bool:
    """Tell whether the words of ``texts`` are French."""
    words = [word.casefold() for text in texts for word in re.findall(r"[^\W\d_]+", text)]
    return sum(word in FRENCH_WORDS for word in words) > FRENCH_RATIO * len(words)


def _with_figures(line: EncodedLine, text: str, class_of: dict[str, int]) -> EncodedLine:
    """Return ``line`` with the look-alikes in its numbers as figures; posteriors stay those of the shapes."""
    ids = line.draft_ids.copy()
    for number in _NUMBER.finditer(text):
        if len(number[0]) >= FEWEST_CHARACTERS:
            for place, character in enumerate(number[0], number.start()):
                ids[place] = class_of[FIGURES.get(character, character)]
    return replace(line, draft_ids=ids)


def _without_thin_spaces(line: EncodedLine, text: str) -> EncodedLine:
    kept = np.ones(len(line.draft_ids), bool)
    for space in _THIN_SPACE.finditer(text):
        kept[space.start() : space.end()] = False
    return replace(
        line,
        draft_ids=line.draft_ids[kept],
        draft_posteriors=line.draft_posteriors[kept],
        draft_frames=line.draft_frames[kept],
    )
