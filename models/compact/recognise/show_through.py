"""Which lines belong to the other side of the leaf: they read better in a mirror.

Knows nothing of pages without lines; what shines through so faintly that no line is found is ``blank.py``'s matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from models.compact.line_shape import Pixels, cut_line
from models.compact.recognise.recognizer import LineRecognizer
from models.sr_swa.pages import EncodedLine

DOUBTFUL_CONFIDENCE = 0.8
"""Mean posterior below which a line is held against the mirror: mirrored print reads at 0.43 to 0.72, faint and sharp
mirrored print at up to 0.82."""
MIRROR_MARGIN = 0.15
"""How much better it must read there. Print from behind gains 0.2 to 0.5; lines of this side lose."""
FEWEST_CHARACTERS = 8
"""Shorter readings gain and lose as much by chance."""
MOST_RATIO = 0.5
"""If more of the doubtful lines than this are mirrored, the rest of them are too faint to decide, and go as well."""
UNSURE_CONFIDENCE = 0.92
"""Lines between the two are looked at in the mirror, all of them beside a mirrored one, else a sample."""
SAMPLE_LINES = 4
SURE_IN_MIRROR = 0.95
SURE_MARGIN = 0.08
"""Unsure lines are mirrored only if they read so surely there, and so much better: faint sharp print from behind gains
0.17 and more."""


def lines_of_this_side(pixels: Pixels, lines: Sequence[EncodedLine], recognizer: LineRecognizer) -> list[EncodedLine]:
    """Return ``lines`` of ``pixels`` [height, width, 3] without those that shine through.

    A page of sure lines costs nothing.
    """
    own = [float(np.mean(line.ctc_posteriors)) for line in lines]

    def in_mirror(places: Sequence[int]) -> dict[int, float]:
        images = [cut_line(pixels, lines[place].quad, lines[place].direction)[:, ::-1] for place in places]
        readings = recognizer.read_images(images)
        return {place: reading.confidence for place, reading in zip(places, readings, strict=True)}

    def sure_in_mirror(places: Sequence[int]) -> set[int]:
        least = {place: max(SURE_IN_MIRROR, own[place] + SURE_MARGIN) for place in places}
        return {place for place, confidence in in_mirror(places).items() if confidence >= least[place]}

    doubtful = [place for place, confidence in enumerate(own) if confidence < DOUBTFUL_CONFIDENCE]
    long = _long(lines, range(len(lines)))
    seen = in_mirror([place for place in doubtful if place in long])
    mirrored = {place for place, confidence in seen.items() if confidence >= own[place] + MIRROR_MARGIN}
    gone = set(doubtful) if len(mirrored) > MOST_RATIO * len(doubtful) else mirrored
    unsure = [place for place in long if DOUBTFUL_CONFIDENCE <= own[place] < UNSURE_CONFIDENCE]
    if gone or sure_in_mirror(unsure[:SAMPLE_LINES]):
        gone |= sure_in_mirror(unsure)
    return [line for place, line in enumerate(lines) if place not in gone]


def _long(lines: Sequence[EncodedLine], places: Iterable[int]) -> list[int]:
    """Return those of ``places`` whose lines say enough to be judged, the longest first."""
    enough = [place for place in places if len(lines[place].ctc_ids) >= FEWEST_CHARACTERS]
    return sorted(enough, key=lambda place: -len(lines[place].ctc_ids))
