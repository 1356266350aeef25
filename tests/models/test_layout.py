"""Reading order on constructed pages: each is written down in the order in which it must be read, then shuffled."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from data_contracts.geometry import Quad
from models.layout import line_directions, reading_order

WIDTH_PX, HEIGHT_PX = 1000, 1500
THICKNESS, PITCH = 20, 28
Lines = list[Quad]


def box(left: float, top: float, width: float, height: float = THICKNESS) -> Quad:
    return ((left, top), (left + width, top), (left + width, top + height), (left, top + height))


def column(left: float, top: float, width: float, rows: int, pitch: float = PITCH, height: float = THICKNESS) -> Lines:
    """Justified paragraphs of five lines: the first indented, the last short."""
    lines = []
    for row in range(rows):
        indent = 20 if row % 5 == 0 else 0
        share = 0.45 if row % 5 == 4 else 1.0
        lines.append(box(left + indent, top + row * pitch, width * share - indent, height))
    return lines


def in_pieces(lines: Lines, gap: float = 12) -> Lines:
    """Each long line as three boxes, parted at places that differ from line to line."""
    pieces: Lines = []
    for number, line in enumerate(lines):
        (left, top), (right, _) = line[0], line[1]
        cuts = [left + (right - left) * share for share in (0.25 + 0.07 * (number % 4), 0.6 + 0.06 * (number % 5))]
        for start, end in zip([left, *cuts], [*cuts, right], strict=True):
            shift = 4 if len(pieces) % 2 else 0
            pieces.append(box(start + gap / 2, top + shift, end - start - gap, line[3][1] - top))
    return pieces


def mapped(lines: Lines, change: Callable[[float, float], tuple[float, float]]) -> Lines:
    return [(change(*a), change(*b), change(*c), change(*d)) for a, b, c, d in lines]


def rotated(lines: Lines, degrees: float) -> Lines:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return mapped(lines, lambda x, y: (x * cosine - y * sine, x * sine + y * cosine))


def standing(lines: Lines) -> Lines:
    """The same page as vertical text: what ran right runs down, what followed below follows to the left."""
    turned = mapped(lines, lambda x, y: (WIDTH_PX - y, x))
    return [(d, a, b, c) for a, b, c, d in turned]


def read(lines: Sequence[Quad], width_px: int = WIDTH_PX, height_px: int = HEIGHT_PX) -> Lines:
    directions = line_directions(lines, width_px, height_px)
    return [lines[index] for index in reading_order(lines, directions, width_px, height_px)]


def shuffled(lines: Lines) -> Lines:
    mixed = list(lines)
    random.Random(7).shuffle(mixed)
    return mixed


def assert_read_as_written(lines: Lines, width_px: int = WIDTH_PX, height_px: int = HEIGHT_PX) -> None:
    places = {line: place for place, line in enumerate(lines)}
    assert [places[line] for line in read(shuffled(lines), width_px, height_px)] == list(range(len(lines)))


LEFT, RIGHT = column(80, 150, 400, 30), column(520, 150, 400, 30)
PAGE_NUMBER, HEAD = box(480, 60, 40), box(300, 60, 400)


ONE_COLUMN = [HEAD, box(880, 60, 40), *column(80, 150, 840, 40), PAGE_NUMBER_AT_FOOT := box(490, 1350, 20)]
INDENTED_VERSE = [box(120 + 60 * (row % 2), 100 + row * PITCH, 300 + 37 * (row % 5)) for row in range(30)]
TWO_COLUMNS_OF_UNEQUAL_HEIGHT = [HEAD, *LEFT, *column(520, 150, 400, 11)]
OFFSET_COLUMNS = [*LEFT, *column(520, 150 + PITCH / 2, 400, 30)]
THREE_COLUMNS = [HEAD, *(line for left in (80, 370, 660) for line in column(left, 150, 270, 30))]
HEAD_ACROSS_THE_MIDDLE = [
    PAGE_NUMBER,
    *column(80, 150, 400, 12),
    *column(520, 150, 400, 12),
    box(250, 520, 500, 40),
    *column(80, 600, 400, 12),
    *column(520, 600, 400, 12),
]
HEAD_PARTED_AT_THE_GUTTER = [
    *column(80, 150, 400, 12),
    *column(520, 150, 400, 12),
    box(250, 520, 220, 50),
    box(512, 520, 230, 50),
    *column(80, 575, 400, 12),
    *column(520, 575, 400, 12),
]
GUIDE_WORDS_OVER_COLUMNS = [box(80, 80, 90), box(830, 80, 90), *LEFT, *RIGHT, box(900, 1050, 20)]
FULL_WIDTH_ABOVE_AND_BELOW = [
    *column(80, 60, 840, 4),
    *column(80, 200, 400, 20),
    *column(520, 200, 400, 20),
    *column(80, 800, 840, 6),
]
NOTES_IN_TWO_COLUMNS = [
    *column(80, 60, 840, 20),
    *column(80, 700, 400, 10, pitch=22, height=15),
    *column(520, 700, 400, 10, pitch=22, height=15),
]
SECTION_HEAD_INSIDE_A_COLUMN = [*column(80, 150, 400, 10), box(180, 450, 200, 30), *column(80, 500, 400, 16), *RIGHT]
CONTENTS = [HEAD] + [
    part
    for row in range(25)
    for part in (box(80, 150 + row * PITCH, 350 + 90 * (row % 5)), box(890 - 5 * (row % 3), 150 + row * PITCH, 30))
]
CONTENTS_WITH_LEADERS = [
    part
    for row in range(25)
    for part in (
        box(80, 150 + row * PITCH, 200 + 90 * (row % 5)),
        box(300 + 90 * (row % 5), 150 + row * PITCH + 8, 550 - 90 * (row % 5), 10),
        box(890, 150 + row * PITCH, 30),
    )
]
NUMBERED_LIST = [
    part
    for row in range(20)
    for part in (box(80, 150 + row * PITCH, 30), box(140, 150 + row * PITCH, 500 + 60 * (row % 4)))
]
INDEX_IN_TWO_COLUMNS = [
    part
    for left in (80, 520)
    for row in range(25)
    for part in (
        box(left, 150 + row * PITCH, 170 + 30 * (row % 4)),
        box(left + 365, 150 + row * PITCH, 35),
    )
]
TABLE = [
    box(left, 150 + row * 34, width)
    for row in range(20)
    for left, width in ((80, 60), (220, 130 + 10 * (row % 3)), (450, 250 - 40 * (row % 4)), (800, 30), (880, 40))
]
TABLE_WITH_DITTO_MARKS = [
    box(left, 150 + row * 34, width)
    for row in range(24)
    for left, width in (
        *([(80, 210)] if row % 6 == 0 else [(100, 15)]),
        *([(250, 170)] if row % 6 == 3 else [(320 if row % 6 == 0 else 250, 15), (400, 15)]),
        (520, 300 - 30 * (row % 3)),
    )
]
NAMES_AND_PLACES = [
    part
    for row in range(20)
    for part in (box(80, 150 + row * 34, 330 + 40 * (row % 4)), box(600, 150 + row * 34, 160 + 10 * (row % 3)))
]
PRICES_BESIDE_TEXT = [
    part
    for row in range(30)
    for part in (box(80, 150 + row * PITCH, 680), box(800, 150 + row * PITCH, 90))[: 1 + (row % 3 == 2)]
]
VERSE_WITH_LINE_NUMBERS = [
    part
    for row in range(30)
    for part in (box(120, 100 + row * PITCH, 400 + 37 * (row % 5)), box(880, 100 + row * PITCH, 25))[
        : 1 + (row % 5 == 4)
    ]
]
NOTE = [box(800, 311 + row * 20, 130 - 9 * row, 14) for row in range(5)]
NOTE_BESIDE_TEXT = [HEAD, *column(80, 150, 680, 30), *NOTE]
NOTE_BEFORE_TEXT = [HEAD, *column(280, 150, 640, 30), *[box(80, 311 + row * 20, 130, 14) for row in range(5)]]
DROP_CAP = [
    box(80, 150, 60, 75),
    *[box(150, 150 + row * PITCH, 770) for row in range(3)],
    *column(80, 150 + 3 * PITCH, 840, 12),
]
PICTURE_IN_ONE_COLUMN = [*column(80, 100, 840, 10), box(350, 900, 300), *column(80, 960, 840, 10)]
PICTURE_IN_TWO_COLUMNS = [
    *column(80, 150, 400, 10),
    *column(80, 450, 250, 10),
    *column(80, 750, 400, 10),
    *column(520, 150, 400, 10),
    *column(670, 450, 250, 10),
    *column(520, 750, 400, 10),
]
LETTER_WITH_WIDE_GAPS = in_pieces([box(80, 150 + row * 45, 840 - 60 * (row % 3)) for row in range(25)], gap=30)

LAYOUTS = {
    "one_column_with_head_and_foot": ONE_COLUMN,
    "one_column_in_pieces": in_pieces(column(80, 150, 840, 40)),
    "one_column_with_wide_word_gaps": LETTER_WITH_WIDE_GAPS,
    "indented_verse": INDENTED_VERSE,
    "two_columns": [PAGE_NUMBER, *LEFT, *RIGHT],
    "two_columns_in_pieces": [PAGE_NUMBER, *in_pieces(LEFT), *in_pieces(RIGHT)],
    "two_columns_of_unequal_height": TWO_COLUMNS_OF_UNEQUAL_HEIGHT,
    "two_columns_whose_rows_do_not_align": OFFSET_COLUMNS,
    "three_columns": THREE_COLUMNS,
    "head_across_the_middle": HEAD_ACROSS_THE_MIDDLE,
    "head_parted_at_the_gutter": HEAD_PARTED_AT_THE_GUTTER,
    "guide_words_over_columns": GUIDE_WORDS_OVER_COLUMNS,
    "full_width_text_above_and_below_columns": FULL_WIDTH_ABOVE_AND_BELOW,
    "footnotes_in_two_columns": NOTES_IN_TWO_COLUMNS,
    "section_head_inside_a_column": SECTION_HEAD_INSIDE_A_COLUMN,
    "contents": CONTENTS,
    "contents_with_leaders": CONTENTS_WITH_LEADERS,
    "numbered_list": NUMBERED_LIST,
    "index_in_two_columns": INDEX_IN_TWO_COLUMNS,
    "table": TABLE,
    "table_with_ditto_marks": TABLE_WITH_DITTO_MARKS,
    "names_and_places": NAMES_AND_PLACES,
    "prices_beside_text": PRICES_BESIDE_TEXT,
    "verse_with_line_numbers": VERSE_WITH_LINE_NUMBERS,
    "note_beside_text": NOTE_BESIDE_TEXT,
    "note_before_text": NOTE_BEFORE_TEXT,
    "drop_cap": DROP_CAP,
    "picture_in_one_column": PICTURE_IN_ONE_COLUMN,
    "picture_in_two_columns": PICTURE_IN_TWO_COLUMNS,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_page_is_read_in_order(layout: str) -> None:
    assert_read_as_written(LAYOUTS[layout])


@pytest.mark.parametrize("degrees", [-4.0, -1.0, 2.5])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_skewed_page_is_read_like_a_straight_one(layout: str, degrees: float) -> None:
    assert_read_as_written(rotated(LAYOUTS[layout], degrees))


@pytest.mark.parametrize("layout", ["two_columns", "three_columns", "guide_words_over_columns", "one_column_in_pieces"])
def test_a_page_whose_edges_lean_is_read_in_order(layout: str) -> None:
    assert_read_as_written(mapped(LAYOUTS[layout], lambda x, y: (x + 0.035 * y, y)))


def test_a_curved_page_keeps_its_rows() -> None:
    pieces = in_pieces(column(80, 150, 840, 30))
    assert_read_as_written(mapped(pieces, lambda x, y: (x, y + 40 * ((x - 500) / 420) ** 2)))


@pytest.mark.parametrize("layout", ["one_column_in_pieces", "two_columns", "two_columns_of_unequal_height", "drop_cap"])
def test_vertical_text_is_read_down_and_to_the_left(layout: str) -> None:
    page = standing(LAYOUTS[layout])
    assert set(line_directions(page, HEIGHT_PX, WIDTH_PX)) == {"vertical"}
    assert_read_as_written(page)


def test_small_double_columns_are_read_right_then_left_before_the_text_goes_on() -> None:
    wide, narrow = 50, 26
    page = []
    for number in range(6):
        right = 900 - 70 * number
        page += [
            box(right - wide, 100, wide, 300),
            box(right - 24, 410, narrow, 400),
            box(right - 50, 410, narrow, 380),
            box(right - wide, 820, wide, 200),
        ]
    assert_read_as_written(page)


def test_half_leaves_of_a_vertical_book_go_right_to_left() -> None:
    half = [box(700 - 60 * number, 100, 45, 900 - 200 * (number % 2)) for number in range(10)]
    page = [*mapped(half, lambda x, y: (x + 900, y)), box(830, 300, 40, 500), *half]
    assert_read_as_written(page, width_px=1700, height_px=1200)


def test_a_number_across_a_vertical_page_keeps_its_place() -> None:
    columns = [box(900 - 60 * number, 100, 45, 1100) for number in range(12)]
    page = [*columns, box(100, 1250, 160, 40)]
    assert line_directions(page, WIDTH_PX, HEIGHT_PX) == ["vertical"] * 12 + ["horizontal"]
    assert sorted(read(page)) == sorted(page)
    assert [line for line in read(page) if line in columns] == columns


def test_each_page_of_a_spread_keeps_its_head() -> None:
    left = [box(80, 60, 40), *column(80, 150, 800, 30)]
    right = [box(1840, 60, 40), *column(1080, 150, 800, 30)]
    assert_read_as_written([*left, *right], width_px=2000, height_px=1300)


def test_lines_of_two_columns_joined_by_mistake_do_not_end_the_columns() -> None:
    joined = box(80, LEFT[12][0][1], 840)
    page = [*LEFT[:12], joined, *LEFT[13:], *RIGHT[:12], *RIGHT[13:]]
    assert_read_as_written(page)


def test_specks_in_the_margins_and_in_the_gutter_do_not_hide_the_columns() -> None:
    page = [PAGE_NUMBER, *LEFT, *RIGHT]
    specks = [box(20 + number, 200 + 150 * number, 15, 15) for number in range(5)]
    specks += [box(970, 300, 14, 14), box(497, 640, 6, 200)]
    text = [line for line in read(shuffled([*page, *specks])) if line not in specks]
    assert text == page


def test_a_number_whose_box_is_tilted_stays_before_its_head() -> None:
    tilted = ((85.0, 53.0), (102.0, 70.0), (85.0, 87.0), (68.0, 70.0))
    assert_read_as_written([tilted, box(300, 72, 400), *column(80, 150, 840, 20)])


def test_a_speck_beside_contents_does_not_part_titles_from_numbers() -> None:
    shadow = box(20, 200, 12, 700)
    assert [line for line in read(shuffled([*CONTENTS, shadow])) if line != shadow] == CONTENTS


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([box(100, 100, 12, 30)], ["horizontal"]),
        ([box(100, 100, 40, 40)], ["horizontal"]),
        ([box(100, 100, 300), box(50, 100, 50, 90)], ["horizontal", "horizontal"]),
        ([box(100, 100, 300), box(100, 140, 300), box(20, 100, 20, 300)], ["horizontal", "horizontal", "vertical"]),
        ([box(100, 100, 40, 400), box(30, 100, 40, 14)], ["vertical", "vertical"]),
        ([box(300, 100, 300), box(2, 0, 10, HEIGHT_PX)], ["horizontal", "horizontal"]),
        ([], []),
    ],
    ids=["lone_figure", "lone_character", "drop_cap", "text_up_the_margin", "lone_character_yi", "scan_border", "none"],
)
def test_a_direction_is_given_on_evidence(lines: Lines, expected: list[str]) -> None:
    assert line_directions(lines, WIDTH_PX, HEIGHT_PX) == expected


def test_an_empty_page_has_an_empty_order() -> None:
    assert reading_order([], [], WIDTH_PX, HEIGHT_PX) == []


def random_page(columns: int, seed: int) -> Lines:
    """A head over columns of unequal height, of lines that the detector parted at random word gaps."""
    chance = random.Random(seed)
    parted, shift = chance.choice([0.0, 0.1, 0.3]), chance.uniform(0, PITCH)
    width = (840 - 40 * (columns - 1)) / columns
    page = [HEAD]
    for number in range(columns):
        for row in range(chance.randint(15, 40)):
            start = 80 + number * (width + 40) + (20 if chance.random() < 0.2 else 0)
            end = 80 + number * (width + 40) + width * (chance.uniform(0.3, 0.9) if chance.random() < 0.15 else 1)
            while end - start > 160 and chance.random() < parted:
                piece = chance.uniform(40, 120)
                page.append(box(start, 150 + row * PITCH + number * shift, piece))
                start += piece + chance.uniform(6, 30)
            page.append(box(start, 150 + row * PITCH + number * shift, end - start))
    return rotated(page, chance.uniform(-2, 2))


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_random_pages_in_pieces_are_read_in_order(columns: int, seed: int) -> None:
    assert_read_as_written(random_page(columns, seed))


any_lines = st.lists(
    st.builds(box, *(st.integers(0, 900) for _ in range(2)), st.integers(1, 600), st.integers(1, 120)),
    min_size=1,
    max_size=8,
)
crossed = st.lists(
    st.tuples(*(st.tuples(st.integers(0, 999), st.integers(0, 999)) for _ in range(4))), min_size=1, max_size=12
)


@example(
    lines=[((0, 0),) * 4, ((0, 0),) * 4, ((0, 0), (0, 0), (0, 0), (4, 0)), ((0, 0), (0, 3), (0, 5), (0, 0))],
    width_px=1,
    height_px=1,
)
@given(lines=st.one_of(any_lines, crossed), width_px=st.integers(1, 3000), height_px=st.integers(1, 3000))
@settings(max_examples=200, deadline=None)
def test_every_line_is_read_once(lines: Lines, width_px: int, height_px: int) -> None:
    order = reading_order(lines, line_directions(lines, width_px, height_px), width_px, height_px)
    assert sorted(order) == list(range(len(lines)))


@given(lines=any_lines, seed=st.integers(0, 99))
@settings(max_examples=200, deadline=None)
def test_the_order_of_the_input_does_not_matter(lines: Lines, seed: int) -> None:
    mixed = list(lines)
    random.Random(seed).shuffle(mixed)
    assert read(mixed) == read(lines)


@given(lines=any_lines, right=st.integers(-500, 500), down=st.integers(-500, 500), doublings=st.integers(-2, 3))
@settings(max_examples=200, deadline=None)
def test_moving_and_scaling_a_page_changes_nothing(lines: Lines, right: int, down: int, doublings: int) -> None:
    scale = 2.0**doublings

    def change(x: float, y: float) -> tuple[float, float]:
        return (x + right) * scale, (y + down) * scale

    size = (round(WIDTH_PX * 8 * scale), round(HEIGHT_PX * 8 * scale))
    assert read(mapped(lines, change), *size) == mapped(read(lines, WIDTH_PX * 8, HEIGHT_PX * 8), change)
