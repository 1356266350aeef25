"""Outputs of layout-writing models -> our lines: ``<|det|>kind [x1, y1, x2, y2]<|/det|>text``, page after page.

Boxes come in thousandths of the page. A region of several lines is one box; its lines are given equal strips of it,
and words the share of their letters: places are exact to the region, not to the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from data_contracts.geometry import Box
from data_contracts.result import Line, Word

OPENING = "<|det|>"
CLOSING = "<|/det|>"
SCALE = 999
"""The largest coordinate that the model writes."""
_HEAD = re.compile(r"\s*(?P<kind>\S+)\s*\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]\s*")


@dataclass(frozen=True)
class Region:
    """One detected region: its text lines, and its box in thousandths of the page."""

    kind: str
    corners: tuple[int, int, int, int]
    lines: tuple[str, ...]


def regions(text: str) -> list[Region]:
    """Return the regions in ``text`` in the order written; text without a box lies anywhere on the page."""
    free, *blocks = text.split(OPENING)
    found = [Region("text", (0, 0, SCALE, SCALE), lines_of(free))]
    for block in blocks:
        head, closed, content = block.partition(CLOSING)
        match = _HEAD.fullmatch(head)
        if closed and match:
            x1, y1, x2, y2 = (min(int(number), SCALE) for number in match.groups()[1:])
            corners = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
            found.append(Region(match["kind"], corners, lines_of(content)))
        else:  # a tag that was never finished is no text
            found.append(Region("text", (0, 0, SCALE, SCALE), lines_of(content)))
    return found


def region_lines(region: Region, width_px: int, height_px: int, confidence: float) -> Iterator[Line]:
    """Yield the lines of ``region`` on a page of that size."""
    left, top, right, bottom = region.corners
    box = Box(
        left=left / SCALE * width_px,
        top=top / SCALE * height_px,
        right=right / SCALE * width_px,
        bottom=bottom / SCALE * height_px,
    )
    strip_px = box.height / max(1, len(region.lines))
    for index, text in enumerate(region.lines):
        strip_top = box.top + index * strip_px
        yield line_in(box.model_copy(update={"top": strip_top, "bottom": strip_top + strip_px}), text, confidence)


def mean(confidences: Sequence[float]) -> float:
    """Return the mean of probabilities; 0 without any."""
    return sum(confidences) / len(confidences) if confidences else 0.0


def lines_of(text: str) -> tuple[str, ...]:
    """Return the lines of ``text`` that have letters, inner space made single."""
    return tuple(line for line in (" ".join(line.split()) for line in text.splitlines()) if line)


def line_in(box: Box, text: str, confidence: float) -> Line:
    """Return the line ``text`` that fills ``box`` [px], each word with the share of its letters."""
    words, start = [], 0
    letter_px = box.width / len(text)
    for word in text.split(" "):
        left, right = (box.left + place * letter_px for place in (start, start + len(word)))
        word_box = box.model_copy(update={"left": left, "right": min(right, box.right)})
        words.append(Word(text=word, box=word_box, confidence=confidence))
        start += len(word) + 1
    corners = ((box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom))
    return Line(text=text, box=box, quad=corners, confidence=confidence, words=tuple(words), read_by="decoder")
