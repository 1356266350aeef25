"""The invisible text of one page as a PDF content stream: every word stretched over its box, along its line.

Pure geometry on records; knows no PDF library. Pixels are those of ``PageResult`` (upright, origin at the
top left, y down); user space is the PDF's (points, usually y up), reached through an affine matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, degrees, hypot

from data_contracts import glyphless_font
from data_contracts.geometry import Box, Point
from data_contracts.plain_text import plain_line
from data_contracts.result import Line, PageResult

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


def _words_in_text(line: Line, text: str) -> list[tuple[str, Box, bool]] | None:
    """Return (word, box, whether a space follows) of each word; None where words and text disagree."""
    found: list[tuple[str, Box, bool]] = []
    position = 0
    for word in line.words:
        content = plain_line(word.text).strip()
        start = text.find(content, position)
        if start < 0 or text[position:start].strip():
            return None
        if content:
            position = start + len(content)
            found.append((content, word.box, text[position : position + 1].isspace()))
    return None if text[position:].strip() else found


def _spread_evenly(text: str, frame: Frame) -> list[Run]:
    """Return the words of ``text`` over the whole line, every character equally wide."""
    cell = frame.length / len(text)
    runs, position = [], 0
    for token in text.split():
        position = text.index(token, position)
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


def runs_of(line: Line, frame: Frame) -> list[Run]:
    """Return the runs of ``line`` in order: they never overlap, and there is a gap exactly where a space is."""
    text = plain_line(line.text).strip()
    if not text:
        return []
    words = _words_in_text(line, text)
    if words is None:
        return _spread_evenly(text, frame)
    gap = _SPACE_EM * frame.height
    spans = [frame.span(box) for _, box, _ in words]
    placed: list[Run] = []
    earliest = spans[0][0]
    for index, (content, _, spaced) in enumerate(words):
        start = max(spans[index][0], earliest)
        end = spans[index][1]
        if index + 1 < len(words):
            following = spans[index + 1][0]
            end = min(end, following - gap) if spaced else following
        end = max(end, start + len(content) * _CHARACTER_EM * frame.height)
        placed.append(Run(content, start, end))
        earliest = end + gap if spaced else end
    return _with_spaces(placed, [spaced for _, _, spaced in words])


def _show(run: Run, frame: Frame, matrix: Affine) -> str:
    """Return the operators that show ``run``: one em along and one em up are the rows of the text matrix."""
    along = _without_skew(frame.along)
    up = (along[1], -along[0])
    length = (run.end - run.start) * (along[0] * frame.along[0] + along[1] * frame.along[1])
    em = length / glyphless_font.advance_em(run.text)
    middle = (run.start + run.end) / 2
    below, before = (0.5 - _BASELINE_RATIO) * frame.height, length / 2
    center = [frame.origin[i] + frame.along[i] * middle + frame.up[i] * frame.height / 2 for i in (0, 1)]
    start = [center[i] - along[i] * before - up[i] * below for i in (0, 1)]
    a, b, c, d, e, f = matrix
    vectors = ((along[0] * em, along[1] * em), (up[0] * frame.height, up[1] * frame.height))
    numbers = [number for x, y in vectors for number in (a * x + c * y, b * x + d * y)]
    numbers += [a * start[0] + c * start[1] + e, b * start[0] + d * start[1] + f]
    shown = "".join(f"/{FONT_RESOURCE}{plane} 1 Tf <{codes}> Tj\n" for plane, codes in glyphless_font.coded(run.text))
    return f"{' '.join(f'{number:.4f}' for number in numbers)} Tm\n{shown}"


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
