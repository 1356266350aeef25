from __future__ import annotations

import numpy as np
import pytest
from support.printed import PROSE, print_columns, print_page

from data_contracts.geometry import Box
from models.compact.detect.detector import LineDetector


@pytest.fixture(scope="module")
def detector() -> LineDetector:
    return LineDetector(side_px=1280, threads=2)


def ink_rows(page: np.ndarray) -> list[tuple[int, int]]:
    """Return first and last row of each printed line."""
    inked = (page.min(axis=(1, 2)) < 128).astype(int)
    edges = np.flatnonzero(np.diff(inked, prepend=0, append=0))
    return [(int(first), int(last) - 1) for first, last in zip(edges[::2], edges[1::2], strict=True)]


@pytest.mark.parametrize("dpi", [100, 150, 300])
def test_each_printed_line_has_one_box_that_holds_it(detector: LineDetector, dpi: int) -> None:
    page = print_page(PROSE, dpi=dpi)
    boxes = sorted((Box.around(quad) for quad in detector.detect(page)), key=lambda box: box.top)
    rows = ink_rows(page)
    assert len(boxes) == len(rows) == len(PROSE)
    for box, (first, last) in zip(boxes, rows, strict=True):
        assert box.top <= first
        assert box.bottom >= last


def test_corners_start_at_the_top_left_and_go_clockwise(detector: LineDetector) -> None:
    for top_left, top_right, bottom_right, bottom_left in detector.detect(print_page(PROSE)):
        assert top_left[0] < top_right[0]
        assert top_right[1] < bottom_right[1]
        assert bottom_right[0] > bottom_left[0]
        assert bottom_left[1] > top_left[1]


def test_columns_have_boxes_that_are_taller_than_wide(detector: LineDetector) -> None:
    boxes = [Box.around(quad) for quad in detector.detect(print_columns(("南浦城外有一座旧桥", "先生每日清晨到此读")))]
    assert len(boxes) == 2
    assert all(box.height > 3 * box.width for box in boxes)


def test_more_lines_than_a_thousand_are_found() -> None:
    patch = print_page(["Harl"], size=11, dpi=100)
    rows, columns = np.nonzero(patch[:, :, 0] < 128)
    word = patch[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    sheet = np.full((1600, 1600, 3), 255, np.uint8)
    places = [(top, left) for top in range(20, 1570, 34) for left in range(20, 1540, 62)]
    for top, left in places:
        sheet[top : top + word.shape[0], left : left + word.shape[1]] = word
    assert len(places) > 1100
    assert len(LineDetector(side_px=1600, threads=2).detect(sheet)) == pytest.approx(len(places), rel=0.02)


def test_the_same_page_gives_the_same_boxes_whatever_the_threads(detector: LineDetector) -> None:
    page = print_page(PROSE)
    found = detector.detect(page)
    assert found == detector.detect(page)
    assert found == LineDetector(side_px=1280, threads=1).detect(page)


@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 900, 3), (900, 5, 3), (1800, 1300, 3)])
def test_a_page_without_text_has_no_lines(detector: LineDetector, shape: tuple[int, int, int]) -> None:
    assert detector.detect(np.full(shape, 255, np.uint8)) == []


@pytest.mark.parametrize("text", ["17", "FINIS.", "Chapter Nine"])
def test_a_lone_word_on_a_large_page_is_found_where_it_stands(detector: LineDetector, text: str) -> None:
    word = print_page([text], size=11, dpi=200)
    page = np.full((2300, 1650, 3), 250, np.uint8)
    page[1500 : 1500 + word.shape[0], 700 : 700 + word.shape[1]] = word
    (box,) = (Box.around(quad) for quad in detector.detect(page))
    rows, columns = np.nonzero(page[:, :, 0] < 128)
    assert (box.left <= columns.min(), box.right >= columns.max()) == (True, True)
    assert (box.top <= rows.min(), box.bottom >= rows.max()) == (True, True)


def test_boxes_stay_on_the_page(detector: LineDetector) -> None:
    page = print_page(PROSE)
    rows, columns = np.nonzero(page[:, :, 0] < 128)
    cropped = page[rows.min() : rows.max(), columns.min() : columns.max()]
    height, width = cropped.shape[:2]
    points = [point for quad in detector.detect(cropped) for point in quad]
    assert points
    assert all(0 <= x <= width - 1 and 0 <= y <= height - 1 for x, y in points)
