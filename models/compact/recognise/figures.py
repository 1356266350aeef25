"""Which letters of a line are figures: an old-style nought is no round o, a one no small l and no capital I.

Old founts cast the nought as a round ``o`` and the one as a small ``I``; typewriters have no other one than the ``l``.
In the picture these are letters; that all else in their word is figures decides what they are. At the ends of a word an
l or an I may be one for all that (10l are pounds), so there the picture must allow the figure, or so many figures stand
beside it that it can be nothing else. Words, Roman numerals and codes that begin with other letters stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from models.sr_swa.pages import EncodedLine

ONE = "1"
NOUGHTS = {"o": "0", "O": "0"}
FIGURES = {**NOUGHTS, "l": ONE, "I": ONE, "z": "2", "Z": "2", "g": "9"}
"""Letters that are figures when all else in their word is. At its ends only noughts and ones are: 3g are grams."""
NEAR_POSTERIOR = 0.02
"""Of the figure one, in or beside the frame of a letter, from which the picture allows it."""
BESIDE_FRAMES = 1

_END, _INSIDE = "".join(NOUGHTS), "".join(FIGURES)
_NUMBER = re.compile(
    rf"(?<![^\W_])(?=[^\W\d_]*[,.]?[^\W\d_]*\d)"
    rf"(?P<first>[lI](?=[{_END}]*\d))?"
    rf"[\d{_END}](?:(?:[\d{_INSIDE}]|[,.](?=[\d{_END}]))*[\d{_END}])?"
    rf"(?P<last>[lI])?"
    rf"(?=(?:st|nd|rd|th|d|s)?(?![^\W_]))"
)
_PLAIN_FIRST = re.compile(rf"l(?=[\d{_END}]{{2}})|I(?=[\d{_INSIDE}]{{3}})")
"""An l before two figures or an I before three is neither a word nor a sign."""
_PLAIN_LAST = re.compile(r"\w{3}I")


def figures_in(line: EncodedLine, text: str, class_of_one: int, fewest_characters: int) -> dict[int, str]:
    """Return index -> figure of the letters in ``text`` that are figures, in numbers of so many characters or more.

    ``text`` is what the hypothesis of ``line`` says, a character an id.
    """
    return {
        index: FIGURES[text[index]]
        for start, stop in _numbers(line, text, class_of_one)
        if stop - start >= fewest_characters
        for index in range(start, stop)
        if text[index] in FIGURES
    }


def _numbers(line: EncodedLine, text: str, class_of_one: int) -> Iterator[tuple[int, int]]:
    """Yield where numbers begin and end whose first and last characters are figures for certain."""
    for number in _NUMBER.finditer(text):
        first = not number["first"] or _PLAIN_FIRST.match(number[0]) or _allows(line, number.start(), class_of_one)
        last = not number["last"] or _PLAIN_LAST.fullmatch(number[0]) or _allows(line, number.end() - 1, class_of_one)
        if first and last:
            yield number.span()


def _allows(line: EncodedLine, index: int, class_of_one: int) -> bool:
    """Tell whether the picture of the hypothesis's character at ``index`` may be a figure one."""
    frame = int(line.ctc_frames[index])
    some = slice(max(0, frame - BESIDE_FRAMES), frame + BESIDE_FRAMES + 1)
    found = line.top_posteriors[some][line.top_ids[some] == class_of_one]
    return bool(len(found) and found.max() >= NEAR_POSTERIOR)
