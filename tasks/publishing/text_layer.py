"""The invisible text of one page as a PDF content stream: every word stretched over its box, along its line.

Pure geometry on records; knows no PDF library. Pixels are those of ``PageResult`` (upright, origin at the
top left, y down); user space is the PDF's (points, usually y up), reached through an affine matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import atan2, degrees, hypot

from data_contracts.geometry import Box, Point
from data_contracts.result import Line, PageResult
from tasks.publishing import glyphless_font
from tasks.publishing.plain_text import plain_line
from tasks.publishing.visual_order import runs_right_to_left, visual_order

Affine = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f) with x' = a x + c y + e and y' = b x + d y + f, as PDF and MuPDF write it."""

FONT_RESOURCE = "TomeflowText"
"""Name of a plane's font on the page, followed by the number of the plane."""

_BASELINE_RATIO = -glyphless_font.DESCENT_UNITS / glyphless_font.UNITS_PER_EM

_SPACE_EM = 0.2
"""Least gap drawn where the text has a space; Poppler sees none below 0.1 em, whatever the space character says."""

_CHARACTER_EM = 0.05
"""Least width of a character, where boxes overlap or are empty."""

_SMALLEST_LINE_PX = 1.0

_SKEW_LIMIT_DEGREES = 10.0
"""Lines that lean less get words parallel to the page, each at its own height.

Poppler splits a word where the baseline moves by half a point between two characters, so words that lean
with the line would fall apart in ``pdftotext``. What leans more is tilted on purpose, and tilted here too.
"""


@dataclass(frozen=True)
class Frame:
    """Where a line lies [px]: foot of its first character, unit vectors along and up, its length and height."""

    origin: Point
    along: Point
    up: Point
    length: float
    height: float

    def span(self, box: Box) -> tuple[float, float]:
        """Return where the word that ``box`` encloses begins and ends along the line [px].

        A leaning word fills less of its upright box than the box is wide.
        """
        x, y = box.center
        middle = (x - self.origin[0]) * self.along[0] + (y - self.origin[1]) * self.along[1]
        across, down = abs(self.along[0]), abs(self.along[1])
        if across >= down:
            extent = (box.width - self.height * down) / across
        else:
            extent = (box.height - self.height * across) / down
        half = max(extent, 0.0) / 2
        return middle - half, middle + half


@dataclass(frozen=True)
class Run:
    """Characters that share one stretch of a line, from ``start`` to ``end`` [px along the line]."""

    text: str
    start: float
    end: float


def frame_of(line: Line) -> Frame:
    """Return the frame of ``line``: the foot of vertical text is the left edge of its column."""
    top_left, top_right, bottom_right, bottom_left = line.quad
    if line.direction == "vertical":
        corners = (top_left, bottom_left, top_right)
    else:
        corners = (bottom_left, bottom_right, top_left)
    frame = _spanned(*corners)
    if frame is not None:
        return frame
    box, least = line.box, _SMALLEST_LINE_PX
    foot, end = box.bottom, max(box.right, box.left + least)
    return _spanned((box.left, foot), (end, foot), (box.left, min(box.top, foot - least))) or Frame(
        (box.left, foot), (1.0, 0.0), (0.0, -1.0), least, least
    )


def _spanned(origin: Point, end: Point, above: Point) -> Frame | None:
    """Return the frame spanned by three corners; None where they coincide."""
    along = (end[0] - origin[0], end[1] - origin[1])
    rise = (above[0] - origin[0], above[1] - origin[1])
    length = hypot(*along)
    if length < _SMALLEST_LINE_PX:
        return None
    along = (along[0] / length, along[1] / length)
    up = (along[1], -along[0])
    height = rise[0] * up[0] + rise[1] * up[1]
    return Frame(origin, along, up, length, height) if height >= _SMALLEST_LINE_PX else None


@dataclass(frozen=True)
class _Placed:
    """A word of a line: which one it is, its characters as they stand on paper, its box, whether a space follows."""

    number: int
    text: str
    box: Box
    spaced: bool


def _words_in_text(line: Line, text: str, order: Sequence[int]) -> list[_Placed] | None:
    """Return the words of ``line`` as they stand in ``text``; None where words and text disagree.

    ``order`` is the visual order of ``text``.
    """
    found: list[_Placed] = []
    position = 0
    for word in line.words:
        content = plain_line(word.text).strip()
        start = text.find(content, position)
        if start < 0 or text[position:start].strip():
            return None
        if content:
            position = start + len(content)
            shown = "".join(text[place] for place in order if start <= place < position)
            found.append(_Placed(len(found), shown, word.box, text[position : position + 1].isspace()))
    return None if text[position:].strip() else found


def _spread_evenly(shown: str, frame: Frame) -> list[Run]:
    """Return the words of ``shown`` over the whole line, every character equally wide."""
    cell = frame.length / len(shown)
    runs, position = [], 0
    for token in shown.split():
        position = shown.index(token, position)
        runs.append(Run(token, position * cell, (position + len(token)) * cell))
        position += len(token)
    return _with_spaces(runs, [True] * len(runs))


def _with_spaces(words: list[Run], space_after: list[bool]) -> list[Run]:
    """Put a space run into the gap after each word that has one."""
    runs: list[Run] = []
    for word, following, spaced in zip(words, [*words[1:], None], space_after, strict=True):
        runs.append(word)
        if spaced and following is not None:
            runs.append(Run(" ", word.end, following.start))
    return runs


def _spaces_between(shown: Sequence[_Placed], words: Sequence[_Placed]) -> list[bool]:
    """Return for each word of ``shown``, in visual order, whether ``words`` have a space between it and the next."""
    between = []
    for word, following in pairwise(shown):
        first, last = sorted((word.number, following.number))
        between.append(any(read.spaced for read in words[first:last]))
    return [*between, False]


def runs_of(line: Line, frame: Frame) -> list[Run]:
    """Return the runs of ``line`` as they stand on paper, from the frame's origin on.

    They never overlap, and there is a gap exactly where a space is. Where a script runs from right to left, so do
    its words, and the characters of each stand in the order of the paper.
    """
    text = plain_line(line.text).strip()
    if not text:
        return []
    backwards = line.direction == "horizontal" and runs_right_to_left(text)
    order = visual_order(text) if backwards else range(len(text))
    words = _words_in_text(line, text, order)
    if words is None:
        return _spread_evenly("".join(text[place] for place in order), frame)
    shown = sorted(words, key=lambda word: frame.span(word.box)) if backwards else words
    return _placed_apart(shown, _spaces_between(shown, words), frame)


def _placed_apart(words: Sequence[_Placed], space_after: list[bool], frame: Frame) -> list[Run]:
    """Return the runs of ``words``, over their boxes as far as these leave room for one another."""
    gap = _SPACE_EM * frame.height
    spans = [frame.span(word.box) for word in words]
    placed: list[Run] = []
    earliest = spans[0][0]
    for index, (word, spaced) in enumerate(zip(words, space_after, strict=True)):
        start = max(spans[index][0], earliest)
        end = spans[index][1]
        if index + 1 < len(words):
            following = spans[index + 1][0]
            end = min(end, following - gap) if spaced else following
        end = max(end, start + len(word.text) * _CHARACTER_EM * frame.height)
        placed.append(Run(word.text, start, end))
        earliest = end + gap if spaced else end
    return _with_spaces(placed, space_after)


def _show(run: Run, frame: Frame, matrix: Affine) -> str:
    """Return the operators that show ``run``: one em along and one em up are the rows of the text matrix.

    All words of a line have the same em, the line's height, and are stretched to their boxes by the horizontal
    scaling: pdf.js takes the least gap for a space where the matrix changes, and joins a line's words where not.
    """
    along = _without_skew(frame.along)
    up = (along[1], -along[0])
    length = (run.end - run.start) * (along[0] * frame.along[0] + along[1] * frame.along[1])
    em = frame.height
    stretch_percent = 100 * length / (em * glyphless_font.advance_em(run.text))
    middle = (run.start + run.end) / 2
    below, before = (0.5 - _BASELINE_RATIO) * em, length / 2
    center = [frame.origin[i] + frame.along[i] * middle + frame.up[i] * em / 2 for i in (0, 1)]
    start = [center[i] - along[i] * before - up[i] * below for i in (0, 1)]
    a, b, c, d, e, f = matrix
    numbers = [em * number for x, y in (along, up) for number in (a * x + c * y, b * x + d * y)]
    numbers += [a * start[0] + c * start[1] + e, b * start[0] + d * start[1] + f]
    shown = "".join(f"/{FONT_RESOURCE}{plane} 1 Tf <{codes}> Tj\n" for plane, codes in glyphless_font.coded(run.text))
    return f"{' '.join(f'{number:.4f}' for number in numbers)} Tm {stretch_percent:.4f} Tz\n{shown}"


def _without_skew(along: Point) -> Point:
    """Return the direction of the page's edges next to ``along`` if it leans from it no more than the limit."""
    angle = degrees(atan2(along[1], along[0]))
    quarter_turns = round(angle / 90)
    if abs(angle - 90 * quarter_turns) > _SKEW_LIMIT_DEGREES:
        return along
    return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarter_turns % 4]


def planes_of(page: PageResult) -> list[int]:
    """Return the Unicode planes that the text of ``page`` needs, in ascending order."""
    return sorted(glyphless_font.planes_in("".join(plain_line(line.text) for line in page.lines)))


def content_stream(page: PageResult, to_user_space: Affine) -> bytes:
    """Return the page's text in reading order, in rendering mode 3 (neither fill nor stroke).

    ``to_user_space`` maps pixels of the upright page image to PDF user space. The stream restores the
    graphics state and may stand before or after the page's own.
    """
    frames = [(line, frame_of(line)) for line in page.lines]
    shown = [_show(run, frame, to_user_space) for line, frame in frames for run in runs_of(line, frame)]
    return f"q BT 3 Tr\n{''.join(shown)}ET Q\n".encode("ascii") if shown else b""
