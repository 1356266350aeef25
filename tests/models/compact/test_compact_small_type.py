from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from support.printed import LATIN_FONT, PROSE, print_page, print_sheet

from data_contracts.geometry import Box, Quad
from models.compact.detect.detector import LineDetector
from models.compact.detect.merge_views import merge_views
from models.compact.detect.small_type import small_letters
from models.compact.detect.tiles import tiles

SIDE_PX = 480
"""Views and sheets are smaller than usual by the same factor: type has the usual scale, in a seventh of the time."""
PLAN_WORDS = ("lamp room", "stair 4", "coal store", "harbour office", "gate of the tower", "Harlan", "ferry")

Mark = tuple[tuple[float, float], str, float]


@pytest.fixture(scope="module")
def detector() -> LineDetector:
    return LineDetector(side_px=SIDE_PX, threads=1)


def newspaper(columns: int = 3, rows: int = 40, size: float = 7) -> list[Mark]:
    """Return the marks of a newspaper page: a title and columns of small type."""
    text = [
        ((20 + 200.0 * column, 120 + 1.2 * size * row), PROSE[(row + column) % 7], size)
        for column in range(columns)
        for row in range(rows)
    ]
    return [((30, 80), "THE HARLAN HERALD", 40), *text]


def plan() -> list[Mark]:
    """Return the marks of a plan: labels far apart and a large title."""
    labels = [
        ((40 + 190.0 * x + 7 * y, 60 + 110.0 * y), PLAN_WORDS[(3 * x + y) % 7], 8.0) for x in range(4) for y in range(5)
    ]
    return [*labels, ((200, 640), "GROUND FLOOR", 50)]


def missed(marks: Sequence[Mark], found: Sequence[Quad], dpi: int) -> list[str]:
    """Return the marks that do not have a box of their own that holds them from end to end."""
    import pymupdf

    font, zoom, boxes = pymupdf.Font(LATIN_FONT), dpi / 72, [Box.around(quad) for quad in found]
    lost = []
    for (x, y), text, size in marks:
        left, right, middle = x * zoom, (x + font.text_length(text, size)) * zoom, (y - size / 4) * zoom
        own = [
            box
            for box in boxes
            if box.top < middle < box.bottom and box.height < 2.5 * size * zoom
            if box.left <= left + 4 and box.right >= right - 4 and box.width < right - left + 3 * size * zoom
        ]
        lost += [text] * (len(own) != 1)
    return lost


@pytest.mark.parametrize(("marks", "size_pt", "dpi"), [(newspaper(), (850, 600), 238), (plan(), (850, 680), 238)])
def test_small_type_on_a_large_sheet_is_found_line_by_line(
    detector: LineDetector, marks: list[Mark], size_pt: tuple[float, float], dpi: int
) -> None:
    sheet = print_sheet(marks, size_pt=size_pt, dpi=dpi)
    found = detector.detect(sheet)
    assert len(missed(marks, found, dpi)) <= 0.03 * len(marks)
    assert len(found) == pytest.approx(len(marks), rel=0.03)


def test_one_small_line_on_a_page_ten_times_as_long_as_high_is_found(detector: LineDetector) -> None:
    marks = [((150.0, 60.0), PROSE[0], 7.0)]
    sheet = print_sheet(marks, size_pt=(1200, 120), dpi=300)
    assert missed(marks, detector.detect(sheet), 300) == []


def test_an_ordinary_page_is_looked_at_once(detector: LineDetector) -> None:
    page = print_page(PROSE, size=12, dpi=200)
    scale = SIDE_PX / max(page.shape[:2])
    assert scale < 0.5
    assert small_letters(page, detector.detect(page), scale) is None


def test_the_cores_of_tiles_cover_the_image_once_and_lie_inside_their_views() -> None:
    seen = np.zeros((1000, 1730), int)
    for core, view in tiles(1000, 1730, 480):
        seen[core.rows, core.columns] += 1
        assert view.right - view.left <= 480
        assert view.bottom - view.top <= 480
        rows, columns = core.seen_from(view)
        window = np.arange(1730)[view.columns][columns]
        assert (window[0], window[-1]) == (core.left, core.right - 1)
        assert np.arange(1000)[view.rows][rows][0] == core.top
    assert (seen == 1).all()


def line(left: float, top: float, right: float, bottom: float) -> Quad:
    return (left, top), (right, top), (right, bottom), (left, bottom)


def test_a_line_of_both_views_is_kept_once() -> None:
    title, again = line(0, 0, 500, 60), line(4, 2, 490, 57)
    assert merge_views([title], [again, line(0, 100, 90, 112)]) == [title, line(0, 100, 90, 112)]


def test_pieces_of_a_large_line_are_not_lines_beside_it() -> None:
    title = line(0, 0, 500, 60)
    assert merge_views([title], [line(0, 5, 200, 60), line(220, 5, 500, 60)]) == [title]


def test_a_block_of_small_lines_makes_room_for_them() -> None:
    rows = [line(0, 20 * row, 400, 20 * row + 15) for row in range(10)]
    assert merge_views([line(0, 0, 420, 200)], rows) == rows


def test_either_view_may_be_empty() -> None:
    only = [line(0, 0, 10, 5)]
    assert merge_views(only, []) == only == merge_views([], only)


def speckled(seed: int = 0) -> npt.NDArray[np.uint8]:
    sheet = np.full((2000, 1500, 3), 245, np.uint8)
    rng = np.random.default_rng(seed)
    for x, y in rng.integers(20, 1480, (400, 2)):
        sheet[y : y + 7, x : x + 5] = 30
    return sheet


def test_specks_are_no_small_lines(detector: LineDetector) -> None:
    assert detector.detect(speckled()) == []
