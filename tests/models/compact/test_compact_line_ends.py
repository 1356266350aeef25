from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from support.printed import print_sheet

from data_contracts.geometry import Quad
from models.compact.recognise.line_ends import without_strokes
from models.compact.recognise.recognizer import LineRecognizer

INK = (0, 0, 0)


@pytest.fixture(scope="module")
def recognizer() -> LineRecognizer:
    return LineRecognizer(threads=1)


def figure(text: str = "72861") -> npt.NDArray[np.uint8]:
    """Return a sheet with a number from x = 125 px on, in rows 75 to 105."""
    sheet = print_sheet([((60.0, 50.0), text, 14.0)], size_pt=(200, 100), dpi=150)
    return np.minimum(sheet, 192).astype(np.uint8)


def outlined_bar(sheet: npt.NDArray[np.uint8]) -> None:
    import cv2

    cv2.rectangle(sheet, (10, 80), (113, 108), (255, 153, 153), -1)
    cv2.rectangle(sheet, (10, 80), (113, 108), INK, 3)


def filled_bar(sheet: npt.NDArray[np.uint8]) -> None:
    sheet[82:107, 10:114] = INK


def rule(sheet: npt.NDArray[np.uint8]) -> None:
    sheet[20:190, 112:115] = INK


def no_bar(sheet: npt.NDArray[np.uint8]) -> None:
    """The sheet stays as it is."""


def read(recognizer: LineRecognizer, sheet: npt.NDArray[np.uint8], left: float) -> list[str]:
    quad: Quad = ((left, 76), (222, 76), (222, 110), (left, 110))
    lines = recognizer.read(sheet, [quad], ["horizontal"])
    return [recognizer.text(line.ctc_ids).strip() for line in without_strokes(sheet, lines, recognizer)]


@pytest.mark.parametrize("draw", [outlined_bar, filled_bar, rule])
@pytest.mark.parametrize("left", [106.0, 110.0])
def test_the_end_of_a_bar_or_a_rule_is_no_figure(recognizer: LineRecognizer, draw: object, left: float) -> None:
    sheet = figure()
    assert callable(draw)
    draw(sheet)
    assert read(recognizer, sheet, left) == ["72861"]


@pytest.mark.parametrize("number", ["172861", "11", "1912", "(17)"])
def test_a_printed_one_stays(recognizer: LineRecognizer, number: str) -> None:
    assert read(recognizer, figure(number), 118.0) == [number]
