from __future__ import annotations

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein
from support.printed import COLUMNS, PROSE, print_columns, print_line, print_page

from data_contracts.geometry import Quad
from models.compact.line_shape import cut_line
from models.compact.recognise.recognizer import FRAME_WIDTH_PX, LINE_HEIGHT_PX, LineRecognizer, collapse
from models.sr_swa.pages import EncodedLine

LONG_TEXT = " ".join(PROSE * 2)


@pytest.fixture(scope="module")
def recognizer() -> LineRecognizer:
    return LineRecognizer(threads=2)


def whole(pixels: np.ndarray) -> Quad:
    height, width = pixels.shape[:2]
    return (0, 0), (width, 0), (width, height), (0, height)


def read_alone(recognizer: LineRecognizer, pixels: np.ndarray) -> EncodedLine:
    return recognizer.read(pixels, [whole(pixels)], ["horizontal"])[0]


def test_a_printed_line_is_read(recognizer: LineRecognizer) -> None:
    line = read_alone(recognizer, print_line(PROSE[0]))
    assert recognizer.text(line.ctc_ids) == PROSE[0]
    assert line.ctc_posteriors.min() > 0.5


def test_a_line_reads_to_the_bit_the_same_alone_among_others_and_with_other_threads(
    recognizer: LineRecognizer,
) -> None:
    page = print_page(PROSE)
    quads: list[Quad] = [((30, top), (700, top), (700, top + 40), (30, top + 40)) for top in range(95, 350, 41)]
    together = recognizer.read(page, quads, ["horizontal"] * len(quads))
    single = LineRecognizer(threads=1)
    for quad, line in zip(quads, together, strict=True):
        for other in (recognizer.read(page, [quad], ["horizontal"])[0], single.read(page, [quad], ["horizontal"])[0]):
            assert other.frames.tobytes() == line.frames.tobytes()
            assert other.top_posteriors.tobytes() == line.top_posteriors.tobytes()
            assert other.ctc_ids.tobytes() == line.ctc_ids.tobytes()


def test_lines_come_back_in_the_order_in_which_they_were_given(recognizer: LineRecognizer) -> None:
    words = ["Harlan", "a much longer line than the other one", "and"]
    readings = recognizer.read_images([print_line(word) for word in words])
    assert [recognizer.text(reading.ids) for reading in readings] == words


def test_a_line_of_seven_hundred_characters_is_neither_squeezed_nor_cut(recognizer: LineRecognizer) -> None:
    pixels = print_line(LONG_TEXT)
    line = read_alone(recognizer, pixels)
    scaled_px = LINE_HEIGHT_PX * pixels.shape[1] / pixels.shape[0]
    assert len(line.frames) == pytest.approx(scaled_px / FRAME_WIDTH_PX, abs=1)
    assert Levenshtein.normalized_distance(recognizer.text(line.ctc_ids), LONG_TEXT) < 0.01


def test_characters_stand_where_they_are_printed(recognizer: LineRecognizer) -> None:
    pixels = print_line("m" * 20)
    line = read_alone(recognizer, pixels)
    places_px = (line.ctc_frames + 0.5) * line.frame_px
    steps = np.diff(places_px)
    assert len(places_px) == 20
    assert steps.mean() == pytest.approx(pixels.shape[1] / 21, rel=0.1)
    assert places_px[-1] < pixels.shape[1]


def test_a_column_is_read_from_top_to_bottom(recognizer: LineRecognizer) -> None:
    page = print_columns(COLUMNS[:1])
    rows, columns = np.nonzero(page[:, :, 0] < 128)
    left, right, top, bottom = columns.min() - 4, columns.max() + 4, rows.min() - 4, rows.max() + 4
    line = recognizer.read(page, [((left, top), (right, top), (right, bottom), (left, bottom))], ["vertical"])[0]
    assert recognizer.text(line.ctc_ids) == COLUMNS[0]
    assert np.all(np.diff(line.ctc_frames) > 0)


def test_a_vertical_cut_shows_the_top_of_the_column_at_its_left() -> None:
    page = np.zeros((100, 20, 3), np.uint8)
    page[:10] = 255
    cut = cut_line(page, whole(page), "vertical")
    assert cut.shape == (20, 100, 3)
    assert cut[:, :9].min() == 255
    assert cut[:, 12:].max() == 0


def test_a_slanted_line_is_cut_straight() -> None:
    page = np.zeros((200, 200, 3), np.uint8)
    quad: Quad = ((50, 50), (150, 70), (146, 90), (46, 70))
    page[68:72, 90:110] = 255
    cut = cut_line(page, quad, "horizontal")
    assert cut.shape == (20, 101, 3)
    assert cut[8:12, 45:55].mean() > 200


def test_a_run_of_one_class_is_one_character_at_its_surest_frame() -> None:
    ids = np.zeros((7, 8), np.int32)
    ids[:, 0] = [5, 5, 0, 5, 7, 7, 0]
    posteriors = np.zeros((7, 8), np.float32)
    posteriors[:, 0] = [0.6, 0.9, 1.0, 0.8, 0.5, 0.4, 1.0]
    found, sureness, frames = collapse(ids, posteriors)
    assert found.tolist() == [5, 5, 7]
    assert frames.tolist() == [1, 3, 4]
    assert sureness.tolist() == pytest.approx([0.9, 0.8, 0.5])


def test_a_line_of_blanks_says_nothing() -> None:
    found, sureness, frames = collapse(np.zeros((4, 8), np.int32), np.ones((4, 8), np.float32))
    assert len(found) == len(sureness) == len(frames) == 0


def test_a_line_of_one_pixel_is_read_as_nothing(recognizer: LineRecognizer) -> None:
    page = np.full((50, 50, 3), 255, np.uint8)
    line = recognizer.read(page, [((3, 3), (4, 3), (4, 4), (3, 4))], ["horizontal"])[0]
    assert recognizer.text(line.ctc_ids).strip() == ""
