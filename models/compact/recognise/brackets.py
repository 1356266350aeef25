"""A number in brackets has a space on both sides of it or on neither, as printers set it.

The recogniser loses thin spaces, one at a time, and hardly invents any: where one of the two is seen, both are there.
Knows texts and lines, no page.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from models.sr_swa.pages import EncodedLine

_NUMBER = r"(?:\d[\d.,/]*|[ivxlcdm]+\.?|[^\W\d_]|[*†‡]+)"
_SPACED_ONCE = re.compile(rf"(?<=[(\[])(?:(?P<first> ){_NUMBER}|{_NUMBER}(?P<last> ))(?=[)\]])", re.IGNORECASE)
"""A figure, a Roman number, one letter or a note's sign in brackets, with a space on one side only."""


def spaced_alike(line: EncodedLine, text: str, space_class: int) -> EncodedLine:
    """Return ``line``, whose hypothesis says ``text``, with the second space of numbers in brackets that have one.

    It is as sure as the first. None is put between neighbouring frames, where there is no room for it.
    """
    ids, posteriors, frames = line.ctc_ids, line.ctc_posteriors, line.ctc_frames
    for found in reversed(list(_SPACED_ONCE.finditer(text))):
        seen, place = (found.start(), found.end()) if found["first"] else (found.end() - 1, found.start())
        before, after = int(frames[place - 1]), int(frames[place])
        if after - before != 1:
            ids = np.insert(ids, place, space_class)
            posteriors = np.insert(posteriors, place, line.ctc_posteriors[seen])
            frames = np.insert(frames, place, min(before + 1, after))
    return line if ids is line.ctc_ids else replace(line, ctc_ids=ids, ctc_posteriors=posteriors, ctc_frames=frames)
