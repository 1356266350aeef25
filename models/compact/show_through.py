"""Which lines belong to the other side of the leaf: they read better in a mirror.

Knows nothing of pages without lines; what shines through so faintly that no line is found is ``blank.py``'s matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.compact.line_shape import Pixels, cut_line
from models.compact.recognizer import LineRecognizer
from models.sr_swa.protocol import EncodedLine

DOUBTFUL_CONFIDENCE = 0.8
"""Mean posterior below which a line is held against the mirror: mirrored print reads at 0.43 to 0.72."""
MIRROR_MARGIN = 0.15
"""How much better it must read there. Print from behind gains 0.2 to 0.5; lines of this side lose."""
FEWEST_CHARACTERS = 8
"""Shorter readings gain and lose as much by chance."""
MOST_RATIO = 0.5
"""If more of the doubtful lines than this are mirrored, the rest of them are too faint to tell, and go as well."""


def lines_of_this_side(pixels: Pixels, lines: Sequence[EncodedLine], recognizer: LineRecognizer) -> list[EncodedLine]:
    """Return ``lines`` of ``pixels`` without those that shine through; a page of sure lines costs nothing."""
    doubtful = [place for place, line in enumerate(lines) if np.mean(line.draft_posteriors) < DOUBTFUL_CONFIDENCE]
    long = [place for place in doubtful if len(lines[place].draft_ids) >= FEWEST_CHARACTERS]
    reflections = [cut_line(pixels, lines[place].quad, lines[place].direction)[:, ::-1] for place in long]
    mirrored = {
        place
        for place, reading in zip(long, recognizer.read_images(reflections), strict=True)
        if reading.confidence >= np.mean(lines[place].draft_posteriors) + MIRROR_MARGIN
    }
    gone = set(doubtful) if len(mirrored) > MOST_RATIO * len(doubtful) else mirrored
    return [line for place, line in enumerate(lines) if place not in gone]
