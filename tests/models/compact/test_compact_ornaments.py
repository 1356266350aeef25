from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from models.compact.detect.edge_strips import uncut_lines
from models.compact.ornaments import without_ornaments
from models.sr_swa.pages import EncodedLine

PROSE_LINE = ("The keeper climbed the tower", 0.98)
CHINESE_LINE = ("南浦城外有一座旧桥", 0.97)

Hypothesis = tuple[str, float]


def encoded(text: str, confidence: float, box: tuple[float, float, float, float]) -> EncodedLine:
    left, top, right, bottom = box
    count = len(text)
    return EncodedLine(
        quad=((left, top), (right, top), (right, bottom), (left, bottom)),
        direction="horizontal",
        frames=np.zeros((2 * count, 120), np.float16),
        ctc_ids=np.zeros(count, np.int32),
        ctc_posteriors=np.full(count, confidence, np.float32),
        ctc_frames=np.arange(0, 2 * count, 2, dtype=np.int32),
        top_ids=np.zeros((2 * count, 8), np.int32),
        top_posteriors=np.zeros((2 * count, 8), np.float16),
        frame_px=4.0,
    )


def kept(*hypotheses: Hypothesis) -> list[str]:
    """Return what is left of a page with these lines below one another."""
    lines = [encoded(*hypothesis, (50, 50 * row, 400, 50 * row + 30)) for row, hypothesis in enumerate(hypotheses)]
    texts = [text for text, _ in hypotheses]
    page = np.full((1000, 600, 3), 255, np.uint8)
    return [texts[lines.index(line)] for line in without_ornaments(page, lines, texts)]


@pytest.mark.parametrize(
    "band",
    [
        ("∑光亲℃光亲℃光亲大", 0.51),
        ("米℃光米℃光", 0.67),
        ("ど℃光光☆*恭ポどゼ光光☆☆", 0.47),
        ("田田田田田田田田田田", 0.69),
    ],
)
def test_a_band_read_as_chinese_is_no_line_of_a_latin_page(band: Hypothesis) -> None:
    assert kept(PROSE_LINE, band, PROSE_LINE) == [PROSE_LINE[0]] * 2


@pytest.mark.parametrize(
    "band", [("∑光亲℃光亲℃光亲大", 0.51), ("+*+*+*+*", 0.53), ("++**十+**", 0.67), ("0" * 21, 0.79)]
)
def test_a_band_alone_on_its_page_is_no_line(band: Hypothesis) -> None:
    assert kept(band) == []


@pytest.mark.parametrize(
    "line",
    [
        ("桥下流水", 0.85),  # a quotation, read surely
        ("Tbc kcepcr climhed tbe towcr", 0.45),  # bad, and in the script of the page
        ("...................... 17", 0.7),
        ("1000000000", 0.97),
        ("— 17 —", 0.6),
    ],
)
def test_what_may_be_text_stays(line: Hypothesis) -> None:
    assert kept(PROSE_LINE, line) == [PROSE_LINE[0], line[0]]


def test_unsure_chinese_stays_beside_sure_chinese() -> None:
    assert kept(CHINESE_LINE, ("門前大樹已有三百年", 0.62)) == [CHINESE_LINE[0], "門前大樹已有三百年"]


def test_unsure_chinese_stays_where_no_line_is_sure() -> None:
    assert kept(("門前大樹已有三百年", 0.65), ("春風吹過江南岸", 0.7)) == ["門前大樹已有三百年", "春風吹過江南岸"]


def test_a_black_box_alone_in_its_row_is_no_line_and_a_bullet_beside_text_is_one() -> None:
    assert kept(("■", 0.88), PROSE_LINE, ("_", 0.77)) == [PROSE_LINE[0]]
    page = np.full((200, 600, 3), 255, np.uint8)
    lines = [encoded("■", 0.88, (10, 12, 30, 28)), encoded(*PROSE_LINE, (50, 5, 400, 35))]
    assert without_ornaments(page, lines, ["■", PROSE_LINE[0]]) == lines


def flourish(stroke_px: int) -> npt.NDArray[np.uint8]:
    import cv2

    page = np.full((400, 600, 3), 255, np.uint8)
    x = np.arange(60, 340)
    loops = np.stack([x + 12 * np.sin(x / 7.0), 250 + 55 * np.sin(x / 11.0) * np.cos(x / 31.0)], axis=1)
    cv2.polylines(page, [loops.round().astype(np.int32)], False, (40, 30, 30), stroke_px, cv2.LINE_AA)
    return page


@pytest.mark.parametrize(("stroke_px", "is_kept"), [(2, False), (14, True)])
def test_one_thin_stroke_of_a_pen_is_no_line(stroke_px: int, is_kept: bool) -> None:
    prose = [encoded(*PROSE_LINE, (50, 40 * row, 400, 40 * row + 30)) for row in range(3)]
    name = encoded("Mn~", 0.75, (45, 190, 355, 310))
    left = without_ornaments(flourish(stroke_px), [*prose, name], [PROSE_LINE[0]] * 3 + ["Mn~"])
    assert left == ([*prose, name] if is_kept else prose)


def cropped(text_rows: int) -> tuple[npt.NDArray[np.uint8], list[EncodedLine]]:
    """Return a page whose first line has ``text_rows`` of its 26 rows left, and its lines."""
    page = np.full((400, 600, 3), 255, np.uint8)
    page[: text_rows - 2, 60:390:9] = 20
    page[: text_rows - 2, 61:390:9] = 20
    first = encoded("The keeper ehoed the tower", 0.91, (50, 0, 400, text_rows))
    return page, [first, *(encoded(*PROSE_LINE, (50, top, 400, top + 26)) for top in (60, 100, 140, 180))]


@pytest.mark.parametrize(("text_rows", "is_kept"), [(13, False), (26, True)])
def test_a_line_halved_by_the_edge_is_no_line_and_a_whole_one_is(text_rows: int, is_kept: bool) -> None:
    page, lines = cropped(text_rows)
    assert uncut_lines(page, lines) == (lines if is_kept else lines[1:])


def test_a_low_line_at_the_edge_whose_ink_ends_before_it_stays() -> None:
    page, lines = cropped(13)
    page[0:3] = 255
    assert uncut_lines(page, lines) == lines


def test_a_letter_of_the_facing_page_is_no_line() -> None:
    page, lines = cropped(26)
    page[222:238, 596:] = 20
    fragment = encoded("e", 0.6, (588, 218, 599, 242))
    assert uncut_lines(page, [*lines, fragment]) == lines
