"""Which way up a page was scanned, on evidence from its own lines.

A page is turned only when reading says so, by a clear margin; in doubt it stays as it is. The evidence is how
sure the recogniser is of a handful of lines, as they stand and upside down. Lines that run down the page are no
evidence by themselves: Chinese columns do so on an upright page. There single characters, cut out and read
standing in each direction, decide. Knows nothing of reading order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from data_contracts.geometry import Point
from models.compact.line_shape import Direction, Pixels, cut_line, point_along, thickness_px
from models.compact.recognise.recognizer import CtcHypothesis, LineRecognizer
from models.compact.words.ideographs import is_ideographic, is_mostly_ideographic
from models.sr_swa.pages import EncodedLine, Rotation

SAMPLE_LINES = 8
"""Lines read upside down: enough that one odd line does not decide, a quarter of a page's reading at most."""
SURE_CONFIDENCE = 0.85
"""Mean over the sample above which lines stand upright without further trial."""
CLEAR_MARGIN = 0.15
"""Lines are upside down when they read better by this much the other way."""
READABLE_CONFIDENCE = 0.7
"""Mean below which the sample says nothing, whichever way up it is held."""
FEWEST_CHARACTERS = 12
FEWEST_LINES = 3
"""With fewer characters, or lines for a quarter turn, the sample must be clear: a page number can be read two ways."""
CLEAR_CONFIDENCE = 0.9
FEWEST_LETTERS = 5
"""What makes a short sample clear."""
SAMPLE_CHARACTERS = 12
"""Single characters read in each direction, where a script runs across and down."""
AGREEING_RATIO = 0.6
"""Share of single characters that must read like their line."""
OTHER_ROTATIONS: tuple[Rotation, ...] = (90, 180, 270)


@dataclass(frozen=True)
class _Sample:
    """The longest lines of the page's direction, read one way up."""

    lines: tuple[EncodedLine, ...]
    readings: tuple[CtcHypothesis, ...]
    flipped: bool

    @property
    def confidence(self) -> float:
        """Mean over all characters; 0 without any."""
        posteriors = np.concatenate([reading.posteriors for reading in self.readings] or [np.zeros(0, np.float32)])
        return float(posteriors.mean()) if len(posteriors) else 0.0


def turn(pixels: Pixels, rotation: Rotation) -> Pixels:
    """Return ``pixels`` [height, width, 3] turned clockwise by ``rotation`` [degrees]."""
    return np.ascontiguousarray(np.rot90(pixels, -rotation // 90))


def find_rotation(pixels: Pixels, lines: Sequence[EncodedLine], recognizer: LineRecognizer) -> Rotation:
    """Return the clockwise turn [degrees] that makes the page upright; 0 unless the evidence is clear.

    ``lines`` are those of ``pixels`` [height, width, 3] as it stands. An upright page with sure lines across costs no
    trial.
    """
    direction, longest = _longest(lines)
    sample = _Sample(longest, tuple(CtcHypothesis.of(line) for line in longest), flipped=False)
    if sample.confidence < SURE_CONFIDENCE:
        crops = [np.rot90(cut_line(pixels, line.quad, direction), 2) for line in longest]
        other = _Sample(longest, tuple(recognizer.read_images(crops)), flipped=True)
        sample = other if other.confidence >= sample.confidence + CLEAR_MARGIN else sample
    text = "".join(recognizer.text(reading.ids) for reading in sample.readings)
    if not _is_evidence(sample, direction, text):
        return 0
    if is_mostly_ideographic(text):
        return _rotation_by_characters(pixels, sample, recognizer)
    if direction == "horizontal":
        return 180 if sample.flipped else 0
    return 90 if sample.flipped else 270


def _is_evidence(sample: _Sample, direction: Direction, text: str) -> bool:
    """Tell whether what was read is enough to turn a page by."""
    if sample.confidence < READABLE_CONFIDENCE:
        return False
    if len(text) >= FEWEST_CHARACTERS and (direction == "horizontal" or len(sample.lines) >= FEWEST_LINES):
        return True
    return sample.confidence >= CLEAR_CONFIDENCE and sum(map(str.isalpha, text)) >= FEWEST_LETTERS


def _longest(lines: Sequence[EncodedLine]) -> tuple[Direction, tuple[EncodedLine, ...]]:
    """Return the direction in which more text runs, and its longest lines; length is counted in frames."""
    across = [line for line in lines if line.direction == "horizontal"]
    down = [line for line in lines if line.direction == "vertical"]
    is_down = sum(len(line.frames) for line in down) > sum(len(line.frames) for line in across)
    longest = sorted(down if is_down else across, key=lambda line: -len(line.frames))[:SAMPLE_LINES]
    return ("vertical" if is_down else "horizontal"), tuple(longest)


def _rotation_by_characters(pixels: Pixels, sample: _Sample, recognizer: LineRecognizer) -> Rotation:
    """Return the turn in which single characters read like the line they stand in; 0 if they do so as they are.

    The recogniser knows characters that stand and, from columns turned for reading, such as lie to the left. So a
    character stands upright in the turn in which it is read as it is *and* a quarter turn to the left.
    """
    cells, wanted = _cells(pixels, sample, recognizer)

    @cache
    def agreement(rotation: int) -> float:
        readings = recognizer.read_images([np.rot90(cell, -rotation // 90) for cell in cells])
        return float(np.mean([list(reading.ids) == [index] for reading, index in zip(readings, wanted, strict=True)]))

    def support(rotation: Rotation) -> float:
        return min(agreement(rotation), agreement((rotation - 90) % 360))

    if not cells or support(0) >= AGREEING_RATIO:
        return 0
    best = max(OTHER_ROTATIONS, key=support)
    return best if support(best) >= AGREEING_RATIO else 0


def _cells(pixels: Pixels, sample: _Sample, recognizer: LineRecognizer) -> tuple[list[Pixels], list[int]]:
    """Return square cut-outs of some ideographs of the sample, as they stand on the page, and their class ids."""
    found: list[tuple[Point, float, int]] = []
    for line, reading in zip(sample.lines, sample.readings, strict=True):
        for index, share in zip(reading.ids, reading.shares, strict=True):
            if is_ideographic(recognizer.text([index])):
                center = point_along(line.quad, line.direction, 1 - share if sample.flipped else share)
                found.append((center, thickness_px(line.quad, line.direction), int(index)))
    chosen = [found[index] for index in np.linspace(0, len(found) - 1, min(len(found), SAMPLE_CHARACTERS)).astype(int)]
    return [_square(pixels, center, side_px) for center, side_px, _ in chosen], [index for *_, index in chosen]


def _square(pixels: Pixels, center: Point, side_px: float) -> Pixels:
    (x, y), half = center, side_px / 2
    top, left = max(0, round(y - half)), max(0, round(x - half))
    return pixels[top : max(top + 1, round(y + half)), left : max(left + 1, round(x + half))]
