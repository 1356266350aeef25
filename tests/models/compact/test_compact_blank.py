from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from support.printed import PROSE, print_page

from data_contracts.config import CompactConfig
from data_contracts.result import BlankReason
from models.compact.detect.blank import gather_evidence, why_blank
from models.compact.reader import CompactModel
from models.sr_swa.pages import PageImage

HEIGHT, WIDTH = 1800, 1200
OLD_PAPER = (228, 214, 186)


def sheet(colour: tuple[int, int, int] = OLD_PAPER, grain: float = 6, seed: int = 0) -> npt.NDArray[np.float64]:
    """Return an unprinted sheet with grain."""
    rng = np.random.default_rng(seed)
    return np.asarray(colour, np.float64) + rng.normal(0, grain, (HEIGHT, WIDTH, 1))


def scanned(page: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    return page.clip(0, 255).astype(np.uint8)


def type_from_behind(strength: float) -> npt.NDArray[np.float64]:
    """Return how much each pixel is darkened by the mirrored, blurred type of the other side."""
    import cv2

    printed = print_page(PROSE * 3, dpi=200)[:, ::-1].mean(axis=2) / 255
    behind = np.ones((HEIGHT, WIDTH))
    rows, columns = min(HEIGHT - 200, printed.shape[0]), min(WIDTH - 100, printed.shape[1])
    behind[200 : 200 + rows, 50 : 50 + columns] = printed[:rows, :columns]
    return 1 - strength * (1 - np.asarray(cv2.GaussianBlur(behind, (0, 0), 3)))[:, :, None]


@pytest.mark.parametrize("deviation", [8, 25, 40])
def test_grain_makes_a_sheet_no_less_empty(deviation: int) -> None:
    grain = np.random.default_rng(1).normal(225, deviation, (HEIGHT, WIDTH, 1))
    assert why_blank(np.broadcast_to(np.clip(grain, 0, 255), (HEIGHT, WIDTH, 3)).astype(np.uint8)) is BlankReason.EMPTY


def test_an_unprinted_sheet_is_empty() -> None:
    assert why_blank(scanned(sheet())) is BlankReason.EMPTY


def test_pure_white_is_empty() -> None:
    assert why_blank(np.full((HEIGHT, WIDTH, 3), 255, np.uint8)) is BlankReason.EMPTY


def test_uneven_light_a_gutter_shadow_and_specks_do_not_make_a_sheet_less_empty() -> None:
    page = sheet() * np.linspace(0.75, 1.0, WIDTH)[None, :, None]
    page[:, :40] *= 0.2
    for place in range(10):
        page[150 * place + 100 : 150 * place + 104, 90 * place + 100 : 90 * place + 104] = 30
    assert why_blank(scanned(page)) is BlankReason.EMPTY


@pytest.mark.parametrize("colour", [(8, 8, 8), (60, 40, 30), (150, 30, 30)])
def test_a_sheet_of_one_dark_or_strong_colour_is_solid(colour: tuple[int, int, int]) -> None:
    assert why_blank(scanned(sheet(colour, grain=3))) is BlankReason.SOLID


def test_an_engraving_is_a_picture() -> None:
    page = sheet()
    page[500:900:6, 300:900] = 25
    page[502:900:6, 300:900] = 25
    page[500:900, 300:900:9] = 25
    assert why_blank(scanned(page)) is BlankReason.PICTURE_ONLY


def test_a_photograph_that_fills_the_page_is_a_picture() -> None:
    import cv2

    rng = np.random.default_rng(3)
    clouds = cv2.resize(rng.uniform(20, 235, (12, 8)), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    assert why_blank(scanned(np.repeat(clouds[:, :, None], 3, axis=2))) is BlankReason.PICTURE_ONLY


@pytest.mark.parametrize("strength", [0.2, 0.35])
def test_type_from_the_other_side_is_show_through(strength: float) -> None:
    assert why_blank(scanned(sheet() * type_from_behind(strength))) is BlankReason.SHOW_THROUGH


def test_the_evidence_of_type_from_behind_is_shade_and_not_ink() -> None:
    evidence = gather_evidence(scanned(sheet() * type_from_behind(0.3)))
    assert evidence.ink_ratio < 0.005
    assert evidence.shade_ratio > 0.02


@pytest.fixture(scope="module")
def model() -> CompactModel:
    return CompactModel(CompactConfig(lexicon_rescoring=False))


@pytest.mark.parametrize("strength", [0.2, 0.35, 0.6])
def test_a_page_on_which_only_the_other_side_can_be_read_is_show_through(model: CompactModel, strength: float) -> None:
    page = model.encode_visual(PageImage(1, scanned(sheet() * type_from_behind(strength)), 200))
    assert page.lines == ()
    assert page.blank_reason is BlankReason.SHOW_THROUGH


def test_lines_of_this_side_stay_where_the_other_side_shines_through(model: CompactModel) -> None:
    import cv2

    printed = print_page(PROSE[:3], dpi=200)[100:]
    page = sheet()
    page[1300 : 1300 + printed.shape[0], : printed.shape[1]] *= printed[:, :WIDTH] / 255
    page = np.asarray(cv2.GaussianBlur(page * type_from_behind(0.4), (0, 0), 0.7))
    encoded = model.encode_visual(PageImage(1, scanned(page), 200))
    assert model.hypothesis_text(encoded).splitlines() == list(PROSE[:3])


@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 2000, 3), (2000, 3, 3)])
def test_the_smallest_pages_get_a_verdict(shape: tuple[int, int, int]) -> None:
    assert why_blank(np.full(shape, 250, np.uint8)) is BlankReason.EMPTY


@pytest.mark.shared_data
def test_the_blank_page_of_the_odd_files_is_empty(shared_data: Path) -> None:
    import pymupdf

    image = pymupdf.open(shared_data / "oddpdf" / "ocrmypdf_blank.pdf")[0].get_pixmap(dpi=150, colorspace=pymupdf.csRGB)
    pixels = np.frombuffer(image.samples, np.uint8).reshape(image.height, image.width, 3)
    assert why_blank(pixels) is BlankReason.EMPTY


def sharp_type_from_behind(strength: float) -> npt.NDArray[np.float64]:
    printed = print_page(PROSE, dpi=150)[:, ::-1].mean(axis=2) / 255
    return 1 - strength * (1 - printed)[:, :, None]


@pytest.mark.parametrize(("strength", "quality"), [(0.08, 95), (0.12, 60)])
def test_no_line_of_faint_sharp_type_from_behind_is_left(model: CompactModel, strength: float, quality: int) -> None:
    import cv2

    page = np.asarray((200, 180, 140), np.float64) * sharp_type_from_behind(strength)
    page += np.random.default_rng(0).normal(0, 2, (*page.shape[:2], 1))
    page = cv2.GaussianBlur(page, (0, 0), 0.5)
    pixels = cv2.imdecode(cv2.imencode(".jpg", scanned(page), [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)
    encoded = model.encode_visual(PageImage(1, np.asarray(pixels, np.uint8), 150))
    assert encoded.lines == ()
    assert encoded.blank_reason is BlankReason.SHOW_THROUGH
