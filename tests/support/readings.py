"""Readings as a model would give them, laid out by rule: so that tests know where every word lies."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from math import cos, radians, sin
from typing import Literal

from data_contracts.geometry import Box, Point
from data_contracts.result import BlankReason, Line, PageResult, PageStatus, Word

LINE_HEIGHT_PX = 40.0
LINE_STEP_PX = 60.0
MARGIN_PX = 150.0
SPACE_RATIO = 0.35
"""Of the line's height."""

CHARACTER_RATIO = 0.45
"""Width of a character, of the line's height."""


def _width(text: str) -> float:
    wide = sum(1 for character in text if not unicodedata.combining(character))
    return max(wide, 1) * CHARACTER_RATIO * LINE_HEIGHT_PX


def text_line(text: str, left: float, top: float, lean_degrees: float = 0.0) -> Line:
    """Return ``text`` with its words side by side from (left, top), leaning about the page's corner."""

    def leaning(x: float, y: float) -> Point:
        turn = radians(lean_degrees)
        return x * cos(turn) - y * sin(turn), x * sin(turn) + y * cos(turn)

    words: list[Word] = []
    x, bottom = left, top + LINE_HEIGHT_PX
    for token in text.split():
        end = x + _width(token)
        corners = [leaning(*corner) for corner in ((x, top), (end, top), (end, bottom), (x, bottom))]
        words.append(Word(text=token, box=Box.around(corners), confidence=0.9))
        x = end + SPACE_RATIO * LINE_HEIGHT_PX
    right = x - SPACE_RATIO * LINE_HEIGHT_PX
    quad = (leaning(left, top), leaning(right, top), leaning(right, bottom), leaning(left, bottom))
    return Line(text=text, box=Box.around(quad), quad=quad, confidence=0.9, words=tuple(words))


def right_to_left_line(text: str, right: float, top: float) -> Line:
    """Return ``text``, of a script that runs from right to left, with its first word at ``right``."""
    mirrored = text_line(text, 0, top)

    def turned(box: Box) -> Box:
        return Box(left=right - box.right, right=right - box.left, top=box.top, bottom=box.bottom)

    words = tuple(word.model_copy(update={"box": turned(word.box)}) for word in mirrored.words)
    box = turned(mirrored.box)
    quad = ((box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom))
    return mirrored.model_copy(update={"box": box, "quad": quad, "words": words})


def line_across(text: str, size_px: tuple[int, int]) -> Line:
    """Return ``text`` as one line across the middle of a page of any size, words of equal width."""
    width, height = size_px
    top, bottom = height * 0.4, height * 0.45
    tokens = text.split()
    step = width * 0.8 / len(tokens)
    lefts = [width * 0.1 + index * step for index in range(len(tokens))]
    words = tuple(
        Word(text=token, box=Box(left=left, top=top, right=left + step * 0.8, bottom=bottom), confidence=0.9)
        for token, left in zip(tokens, lefts, strict=True)
    )
    box = Box.around([(words[0].box.left, top), (words[-1].box.right, bottom)])
    quad = ((box.left, top), (box.right, top), (box.right, bottom), (box.left, bottom))
    return Line(text=text, box=box, quad=quad, confidence=0.9, words=words)


def column(text: str, right: float, top: float) -> Line:
    """Return one column of vertical text, in two words without a space between."""
    left, bottom = right - LINE_HEIGHT_PX, top + len(text) * LINE_HEIGHT_PX
    half = len(text) // 2
    middle = top + half * LINE_HEIGHT_PX
    parts = [(text[:half], top, middle - 4), (text[half:], middle + 4, bottom)]
    words = tuple(
        Word(text=part, box=Box(left=left, right=right, top=start, bottom=end), confidence=0.9)
        for part, start, end in parts
        if part
    )
    return Line(
        text=text,
        box=Box(left=left, right=right, top=top, bottom=bottom),
        quad=((left, top), (right, top), (right, bottom), (left, bottom)),
        confidence=0.9,
        words=words,
        direction="vertical",
    )


def text_page(
    lines: Sequence[str] | Sequence[Line],
    page_number: int = 1,
    size_px: tuple[int, int] = (1700, 2200),
    dpi: float = 200.0,
    rotation: Literal[0, 90, 180, 270] = 0,
) -> PageResult:
    """Return a page that holds ``lines``, from the top margin downwards where they are strings."""
    placed = tuple(
        line if isinstance(line, Line) else text_line(line, MARGIN_PX, MARGIN_PX + index * LINE_STEP_PX)
        for index, line in enumerate(lines)
    )
    return PageResult(
        page_number=page_number,
        width_px=size_px[0],
        height_px=size_px[1],
        dpi=dpi,
        rotation=rotation,
        status=PageStatus.TEXT,
        lines=placed,
    )


def blank_page(page_number: int = 1) -> PageResult:
    """Return a page with nothing on it."""
    return PageResult(
        page_number=page_number,
        width_px=1700,
        height_px=2200,
        dpi=200.0,
        status=PageStatus.BLANK,
        blank_reason=BlankReason.EMPTY,
    )


def failed_page(page_number: int = 1) -> PageResult:
    """Return a page that could not be rendered."""
    return PageResult(
        page_number=page_number, width_px=0, height_px=0, dpi=0.0, status=PageStatus.FAILED, error="damaged"
    )


def page_of_truth(text: str, page_number: int, size_px: tuple[int, int], dpi: float) -> PageResult:
    """Return the words of a transcription spread over a page of ``size_px``, line under line, as a book has them."""
    words, lines, line = text.split(), [], ""
    width = size_px[0] - 2 * MARGIN_PX
    for word in words:
        longer = f"{line} {word}".strip()
        if line and _width(longer) > width:
            lines.append(line)
            longer = word
        line = longer
    return text_page([*lines, line], page_number, size_px, dpi)
