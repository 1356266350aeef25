"""Print in a script that the weights lack is measured as unread; no other print is, whatever it looks like."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw, ImageFont
from support.printed import COLUMNS, PROSE, print_columns, print_page

from data_contracts.config import CompactConfig, QualityConfig
from models.compact.reader import CompactModel
from models.sr_swa.pages import PageImage

Drawn = npt.NDArray[np.uint8]
FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
SIZE_PX, STEP_PX = 28, 44
LETTERS = {
    "latin": "etaoinshrdlucmfwypvbgk",
    "cyrillic": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщ",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "armenian": "աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտր",
    "georgian": "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხ",
}


@pytest.fixture(scope="module")
def model() -> CompactModel:
    return CompactModel(CompactConfig(decoder=False, lexicon_rescoring=False, word_lists=False))


def unread(model: CompactModel, pixels: Drawn) -> float:
    return model.encode_visual(PageImage(1, pixels, 150.0)).unread_ratio


def canvas(lines: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("L", (900, 80 + STEP_PX * lines), 255)
    return image, ImageDraw.Draw(image)


def as_page(image: Image.Image) -> Drawn:
    return np.repeat(np.asarray(image)[:, :, None], 3, axis=2)


def printed_in(*scripts: str) -> Drawn:
    """Return a page with a line of random words, with a number and a comma, of each of ``scripts``."""
    chance, font = random.Random(3), ImageFont.truetype(str(FONT), SIZE_PX)
    image, pen = canvas(len(scripts))
    for row, script in enumerate(scripts):
        words = ["".join(chance.choices(LETTERS[script], k=chance.randint(3, 8))) for _ in range(5)]
        pen.text((60, 40 + STEP_PX * row), f"{words[0]} {words[1]}, 18{row}5 {' '.join(words[2:])}", font=font, fill=0)
    return as_page(image)


@pytest.mark.parametrize("script", [script for script in LETTERS if script != "latin"])
def test_a_page_in_an_unknown_script_is_unread(model: CompactModel, script: str) -> None:
    assert unread(model, printed_in(*[script] * 6)) > QualityConfig().max_unread_ratio


def test_a_line_in_an_unknown_script_among_others_is_no_reason_for_quarantine(model: CompactModel) -> None:
    assert unread(model, printed_in(*["latin"] * 7, "cyrillic", *["latin"] * 4)) <= QualityConfig().max_unread_ratio


def leaders() -> Drawn:
    """Return a table of contents with dotted leaders."""
    image, pen = canvas(6)
    font = ImageFont.truetype(str(FONT), SIZE_PX)
    for row, line in enumerate(PROSE[:6]):
        pen.text((60, 40 + STEP_PX * row), f"{line[:14]} {'. ' * 24}{row * 17 + 3}", font=font, fill=0)
    return as_page(image)


def numbers() -> Drawn:
    """Return a ruled table of numbers."""
    chance, font = random.Random(5), ImageFont.truetype(str(FONT), SIZE_PX)
    image, pen = canvas(6)
    for row in range(6):
        for column in range(5):
            pen.text((60 + 160 * column, 40 + STEP_PX * row), f"{chance.randint(0, 99999):,}", font=font, fill=0)
            pen.line((50 + 160 * column, 30, 50 + 160 * column, 40 + STEP_PX * 6), fill=0, width=2)
    return as_page(image)


def music() -> Drawn:
    """Return staves with notes and a line of text below each."""
    chance, font = random.Random(7), ImageFont.truetype(str(FONT), SIZE_PX)
    image, pen = canvas(12)
    for stave in range(3):
        top = 40 + 180 * stave
        for line in range(5):
            pen.line((60, top + 14 * line, 840, top + 14 * line), fill=0, width=2)
        for x in range(90, 830, 46):
            y = top + 7 * chance.randint(0, 8)
            pen.ellipse((x - 8, y - 6, x + 8, y + 6), fill=0)
            pen.line((x + 8, y, x + 8, y - 40), fill=0, width=2)
        pen.text((60, top + 80), PROSE[stave][:40], font=font, fill=0)
    return as_page(image)


def boxes() -> Drawn:
    """Return a page with passages blacked out."""
    image, pen = canvas(8)
    font = ImageFont.truetype(str(FONT), SIZE_PX)
    for row in range(8):
        if row % 2:
            pen.text((60, 40 + STEP_PX * row), PROSE[row % 7][:40], font=font, fill=0)
        else:
            pen.rectangle((60, 44 + STEP_PX * row, 800, 72 + STEP_PX * row), fill=0)
    return as_page(image)


def behind() -> Drawn:
    """Return a page through which the print of its other side shines."""
    front = print_page(PROSE).astype(np.float64)
    ghost = 255 - 0.15 * (255 - np.roll(front, 20, axis=0)[:, ::-1])
    return np.minimum(front, ghost).astype(np.uint8)


@pytest.mark.parametrize("page", [leaders, numbers, music, boxes, behind])
def test_print_that_is_no_text_and_text_in_odd_shape_are_not_unread(
    model: CompactModel, page: Callable[[], Drawn]
) -> None:
    assert unread(model, page()) <= QualityConfig().warn_unread_ratio


def test_prose_and_columns_are_read(model: CompactModel) -> None:
    assert unread(model, print_page(PROSE)) == 0
    assert unread(model, print_columns(COLUMNS)) == 0
