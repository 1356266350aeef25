"""What the shapes of a line do not decide: a long s is no f, an old-style nought a figure, a thin space no space.

Old founts cast figures like letters (``figures.py``), printers set a thin space before ``; : ? !``, and a dash looks
like the Chinese one. In the picture these are letters and spaces; what stands beside them decides what they are. Knows
the hypotheses of one page, no dictionary and no other page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.compact.recognise.brackets import spaced_alike
from models.compact.recognise.figures import ONE, figures_in
from models.compact.recognise.latin_marks import full_width_marks
from models.compact.recognise.long_s import long_s_indices
from models.compact.words.language import is_french
from models.compact.words.split import split_letters
from models.sr_swa.pages import EncodedLine

FEWEST_CHARACTERS = 3
"""In French a shorter word stays as it was read: 8o is octavo, 1o primo."""
CHINESE_ONE, DASH = "一", "—"

_CHINESE = re.compile(rf"(?!{CHINESE_ONE})[\u3400-\u9fff\U00020000-\U0003ffff]")
_ELIDED = re.compile(r"(?<!\w)1(?=['’][^\W\d_])")
"""In French an article, before a word that begins with a vowel."""
_THIN_SPACE = re.compile(r"(?<=\S) +(?=[;:?!])")


def as_printed(lines: Sequence[EncodedLine], characters: Sequence[str]) -> tuple[EncodedLine, ...]:
    """Return the lines of a page as they were set; ``characters`` [classes] map class ids.

    Posteriors stay those of the shapes.
    """
    class_of = {character: index for index, character in enumerate(characters)}
    texts = ["".join(characters[index] for index in line.ctc_ids) for line in lines]
    french = is_french(word.cut(text) for text in texts for word in split_letters(text))
    chinese = any(map(_CHINESE.search, texts))
    printed = []
    shapes = [_as_seen(line, text, class_of["f"]) for line, text in zip(lines, texts, strict=True)]
    for line, text, long_s in zip(lines, texts, long_s_indices(texts, shapes), strict=True):
        ids = line.ctc_ids.copy()
        figures = figures_in(line, text, class_of[ONE], FEWEST_CHARACTERS if french else 1)
        dashes = () if chinese else (index for index, letter in enumerate(text) if letter == CHINESE_ONE)
        marks = full_width_marks(text, is_chinese_page=chinese, known=class_of)
        elided = [found.start() for found in _ELIDED.finditer(text)] if french else ()
        letters = {**dict.fromkeys(long_s, "s"), **dict.fromkeys(dashes, DASH), **dict.fromkeys(elided, "l")}
        for index, letter in {**letters, **marks, **figures}.items():
            ids[index] = class_of[letter]
        kept = _kept(replace(line, ctc_ids=ids), [True] * len(ids) if french else _no_thin_space(text))
        text = "".join(characters[index] for index in kept.ctc_ids)
        printed.append(spaced_alike(kept, text, class_of[" "]))
    return tuple(printed)


def _as_seen(line: EncodedLine, text: str, class_of_f: int) -> str:
    """Return ``text`` with an f for each s in whose frame the recogniser sees one."""
    seen = line.top_ids[line.ctc_frames, 0] == class_of_f if text else ()
    return "".join("f" if letter == "s" and is_f else letter for letter, is_f in zip(text, seen, strict=True))


def _no_thin_space(text: str) -> list[bool]:
    """Return which characters of ``text`` are more than a thin space."""
    thin = {index for space in _THIN_SPACE.finditer(text) for index in range(*space.span())}
    return [index not in thin for index in range(len(text))]


def _kept(line: EncodedLine, kept: Sequence[bool]) -> EncodedLine:
    """Return ``line`` with the characters of its hypothesis that are ``kept``."""
    mask = np.asarray(kept, bool)
    return replace(
        line,
        ctc_ids=line.ctc_ids[mask],
        ctc_posteriors=line.ctc_posteriors[mask],
        ctc_frames=line.ctc_frames[mask],
    )
