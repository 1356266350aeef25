import re
from itertools import pairwise
from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.readings import column, text_line, text_page

from data_contracts.geometry import Box
from data_contracts.result import Line, Word
from tasks.publishing.text_layer import content_stream, frame_of, runs_of

IDENTITY = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def line_of(text: str, words: list[tuple[str, float, float]]) -> Line:
    boxes = [
        Word(text=word, box=Box(left=left, top=100, right=right, bottom=140), confidence=1)
        for word, left, right in words
    ]
    return Line(
        text=text,
        box=Box(left=0, top=100, right=1000, bottom=140),
        quad=((0, 100), (1000, 100), (1000, 140), (0, 140)),
        confidence=1,
        words=tuple(boxes),
    )


def runs(line: Line) -> list[tuple[str, float, float]]:
    return [(run.text, round(run.start, 3), round(run.end, 3)) for run in runs_of(line, frame_of(line))]


def test_a_word_lies_over_its_box_and_a_space_fills_the_gap():
    line = line_of("one two", [("one", 10, 90), ("two", 120, 200)])
    assert runs(line) == [("one", 10, 90), (" ", 90, 120), ("two", 120, 200)]


def test_words_without_a_space_between_touch():
    line = line_of("簡明目錄", [("簡明", 10, 80), ("目錄", 100, 180)])
    assert runs(line) == [("簡明", 10, 100), ("目錄", 100, 180)]


def test_boxes_that_overlap_still_leave_a_gap_for_the_space():
    line = line_of("one two", [("one", 10, 125), ("two", 120, 200)])
    assert runs(line) == [("one", 10, 112), (" ", 112, 120), ("two", 120, 200)]


@pytest.mark.parametrize(
    "words", [[], [("one", 10, 90)], [("one", 10, 90), ("too", 120, 200)], [("two", 10, 90), ("one", 120, 200)]]
)
def test_a_line_whose_words_disagree_with_its_text_is_spread_evenly(words):
    shown = runs(line_of("one two", words))
    assert [text for text, _, _ in shown] == ["one", " ", "two"]
    assert shown[0][1] == 0
    assert shown[-1][2] == 1000


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 1000), st.booleans()), min_size=1, max_size=12))
def test_runs_follow_one_another_whatever_the_boxes(boxes):
    words = [(f"w{index}", min(a, b), max(a, b)) for index, (a, b, _) in enumerate(boxes)]
    text = "".join(word + (" " if spaced else "") for (word, _, _), (_, _, spaced) in zip(words, boxes, strict=True))
    shown = runs(line_of(text, words))
    assert "".join(run for run, _, _ in shown) == text.strip()
    assert all(end > start for _, start, end in shown)
    assert all(before[2] <= after[1] + 1e-6 for before, after in pairwise(shown))


def shown_corners(page) -> list[tuple[str, tuple[float, float], tuple[float, float]]]:
    """Return (text, lower left, upper right) of every run, computed from the operators as a viewer would."""
    corners = []
    for numbers, stretch, codes in re.findall(
        r"((?:-?[\d.]+ ){6})Tm ([\d.]+) Tz\n/\w+ 1 Tf <(\w+)> Tj", content_stream(page, IDENTITY).decode()
    ):
        a, b, c, d, e, f = map(float, numbers.split())
        text = bytes.fromhex(codes).decode("utf-16-be")
        width = 0.5 * len(text) * float(stretch) / 100
        low = (e - 0.2 * c, f - 0.2 * d)
        corners.append((text, low, (low[0] + a * width + c, low[1] + b * width + d)))
    return corners


def test_the_selection_box_of_a_word_is_its_box():
    line = text_line("alpha beta", 100, 200)
    for text, low, high in shown_corners(text_page([line])):
        if text != " ":
            (box,) = [word.box for word in line.words if word.text == text]
            assert low == pytest.approx((box.left, box.bottom), abs=0.01)
            assert high == pytest.approx((box.right, box.top), abs=0.01)


def test_vertical_text_runs_down_its_column():
    line = column("欽定四庫", right=500, top=100)
    shown = shown_corners(text_page([line]))
    assert "".join(text for text, _, _ in shown) == "欽定四庫"
    first, last = shown[0], shown[-1]
    assert first[1] == pytest.approx((line.box.left, line.box.top), abs=0.01)
    assert last[2] == pytest.approx((line.box.right, line.box.bottom), abs=0.01)


@pytest.mark.parametrize("lean_degrees", [-8, -2, 0.5, 3, 9])
def test_words_of_a_skewed_line_stand_upright_each_at_its_own_height(lean_degrees):
    line = text_line("alpha beta gamma", 600, 900, lean_degrees)
    for text, low, high in shown_corners(text_page([line])):
        if text != " ":
            (box,) = [word.box for word in line.words if word.text == text]
            middle = ((low[0] + high[0]) / 2, (low[1] + high[1]) / 2)
            assert hypot(middle[0] - box.center[0], middle[1] - box.center[1]) < 1
            assert low[1] - high[1] == pytest.approx(40, abs=0.1), "not leaning: as high as the line"


def test_text_that_is_tilted_on_purpose_stays_tilted():
    (_, low, high), *_ = shown_corners(text_page([text_line("alpha", 600, 900, 30)]))
    assert high[1] - low[1] == pytest.approx(90 * 0.5 - 40 * 0.866, abs=0.5)


def test_a_line_without_extent_is_shown_all_the_same():
    point = Box(left=5, top=5, right=5, bottom=5)
    line = Line(text="dot", box=point, quad=((5, 5),) * 4, confidence=1, words=())
    ((text, low, high),) = shown_corners(text_page([line]))
    assert text == "dot"
    assert high[0] > low[0]
    assert high[1] < low[1]


def test_a_page_without_lines_has_no_stream():
    assert content_stream(text_page([line_of(" ", [])]), IDENTITY) == b""
