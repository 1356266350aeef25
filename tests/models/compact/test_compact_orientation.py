from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.printed import CHINESE_FONT, COLUMNS, PROSE, print_columns, print_page

from models.compact.detect.detector import LineDetector
from models.compact.line_shape import Pixels
from models.compact.orientation import find_rotation, turn
from models.compact.recognise.recognizer import LineRecognizer
from models.layout import line_directions
from models.sr_swa.pages import Rotation

ROTATIONS: tuple[Rotation, ...] = (0, 90, 180, 270)
Judge = Callable[[Pixels], Rotation]


@pytest.fixture(scope="module")
def rotation_of() -> Judge:
    detector, recognizer = LineDetector(1280, 2), LineRecognizer(2)

    def judge(pixels: Pixels) -> Rotation:
        quads = detector.detect(pixels)
        directions = line_directions(quads, pixels.shape[1], pixels.shape[0])
        return find_rotation(pixels, recognizer.read(pixels, quads, directions), recognizer)

    return judge


def lying(page: Pixels, rotation: Rotation) -> Pixels:
    """Return ``page`` so that a clockwise turn by ``rotation`` puts it upright."""
    return np.ascontiguousarray(np.rot90(page, rotation // 90))


def test_turning_is_clockwise() -> None:
    page = np.zeros((2, 3, 3), np.uint8)
    page[0, 0] = 9
    assert turn(page, 90).shape == (3, 2, 3)
    assert turn(page, 90)[0, 1].tolist() == [9, 9, 9]
    assert turn(page, 180)[1, 2].tolist() == [9, 9, 9]


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_a_page_of_prose_is_put_upright(rotation_of: Judge, rotation: Rotation) -> None:
    assert rotation_of(lying(print_page(PROSE), rotation)) == rotation


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_a_page_of_chinese_columns_is_put_upright(rotation_of: Judge, rotation: Rotation) -> None:
    assert rotation_of(lying(print_columns(COLUMNS), rotation)) == rotation


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_a_page_of_chinese_lines_is_put_upright(rotation_of: Judge, rotation: Rotation) -> None:
    page = print_page(COLUMNS, font=CHINESE_FONT, size=14, leading=24)
    assert rotation_of(lying(page, rotation)) == rotation


@pytest.mark.parametrize("text", ["17", "— 96 —", "8"])
def test_a_page_with_a_number_only_stays_as_it_is(rotation_of: Judge, text: str) -> None:
    assert rotation_of(lying(print_page([text]), 180)) == 0


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_a_single_clear_line_is_put_upright(rotation_of: Judge, rotation: Rotation) -> None:
    assert rotation_of(lying(print_page(PROSE[:1], size=20), rotation)) == rotation


def test_an_empty_page_stays_as_it_is(rotation_of: Judge) -> None:
    assert rotation_of(np.full((900, 600, 3), 255, np.uint8)) == 0


def test_noise_stays_as_it_is(rotation_of: Judge) -> None:
    assert rotation_of(np.random.default_rng(5).integers(0, 255, (900, 600, 3), dtype=np.uint8)) == 0


def render(path: Path, page_index: int) -> Pixels:
    import pymupdf

    image = pymupdf.open(path)[page_index].get_pixmap(dpi=150, colorspace=pymupdf.csRGB, alpha=False)
    return np.frombuffer(image.samples, np.uint8).reshape(image.height, image.width, 3)


@pytest.mark.shared_data
@pytest.mark.parametrize(("page_index", "rotation"), [(0, 0), (1, 270), (2, 180), (3, 90)])
def test_each_page_of_a_scan_in_four_directions_is_put_upright(
    shared_data: Path, rotation_of: Judge, page_index: int, rotation: Rotation
) -> None:
    assert rotation_of(render(shared_data / "oddpdf" / "ocrmypdf_cardinal.pdf", page_index)) == rotation


@pytest.mark.shared_data
@pytest.mark.parametrize(("page_index", "rotation"), [(0, 270), (1, 180), (2, 90), (3, 0)])
def test_a_lone_word_is_enough_to_put_a_page_upright(
    shared_data: Path, rotation_of: Judge, page_index: int, rotation: Rotation
) -> None:
    assert rotation_of(render(shared_data / "oddpdf" / "pypdf_habibi-rotated.pdf", page_index)) == rotation


@pytest.mark.slow
@pytest.mark.shared_data
def test_no_page_of_the_shared_books_is_turned(shared_data: Path, rotation_of: Judge) -> None:
    books = sorted((shared_data / "books").glob("*/*.pdf"))
    assert books
    assert [path.stem for path in books if rotation_of(render(path, 3))] == []
