"""Draws the lines of a generated document as a detector would cut them out of a scan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image as Pictures
from PIL import ImageDraw

from models.training.drawing.degrade import (
    CROP_HEIGHT_PX,
    STYLE_WEIGHTS,
    STYLES,
    Image,
    PageDegradation,
    degrade,
    draw_degradation,
    rubbish,
)
from models.training.drawing.faces import Face, choose_face, drawable
from models.training.drawing.text import DocumentText, LineText

FILL = (0.58, 0.86)
"""Share of the crop's height from the highest ascender to the lowest descender."""
NEIGHBOUR_RATE = 0.25
"""Share of crops with the feet of the line above or the heads of the line below in them."""
UNDERLINE_RATE = 0.03
SEVERITY_SPREAD = 0.06
"""Standard deviation of the pages' severity around that of their document, where one is given."""


def draw_document(
    document: DocumentText, fonts: Path, seed: int, *, held_out: bool, severity: float | None = None
) -> Iterator[tuple[int, PageDegradation, LineText, Image]]:
    """Yield page index, degradation, text and grey image [48, width] of every line of ``document``.

    All pages are about as bad as ``severity`` says, or each is as bad as it happens to be.
    """
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    face = choose_face(document, chance, fonts, held_out=held_out)
    style = STYLES[int(rng.choice(len(STYLES), p=STYLE_WEIGHTS))]
    fill, tracking = chance.uniform(*FILL), chance.uniform(0.92, 1.1)
    for index, page in enumerate(document.pages):
        drawn = rng.beta(1.1, 1.3) if severity is None else rng.normal(severity, SEVERITY_SPREAD)
        degradation = draw_degradation(rng, style, float(np.clip(drawn, 0, 1)))
        inks = [_ink(line, face, fill, tracking, chance, rng) for line in page]
        for at, (line, ink) in enumerate(zip(page, inks, strict=True)):
            shown = _with_neighbours(ink, inks[at - 1], inks[(at + 1) % len(inks)], chance)
            yield index, degradation, line, degrade(shown, degradation, rng, behind=inks[chance.randrange(len(inks))])


def _ink(
    line: LineText, face: Face, fill: float, tracking: float, chance: random.Random, rng: np.random.Generator
) -> Image:
    """Return ink [48, width] of one line: 0 paper, 255 ink."""
    if line.kind == "empty":
        return rubbish(CROP_HEIGHT_PX, chance.randint(20, 500), rng)
    text = drawable(face, line.shown)
    font = face.at(40)
    top, bottom = font.getbbox("Ahgpdl阳")[1::2] if text else (0, 40)
    font = face.at(max(12, round(40 * CROP_HEIGHT_PX * fill / max(1, bottom - top))))
    top, bottom = font.getbbox("Ahgpdl")[1::2]
    left, _, right, _ = font.getbbox(text)
    before, after = chance.randint(2, 16), chance.randint(2, 16)
    picture = Pictures.new("L", (max(8, round(right - left) + before + after), CROP_HEIGHT_PX), 0)
    y = (CROP_HEIGHT_PX - (bottom - top)) / 2 - top + chance.uniform(-2.5, 2.5)
    draw = ImageDraw.Draw(picture)
    draw.text((before - left, y), text, fill=255, font=font)
    if chance.random() < UNDERLINE_RATE:
        draw.line((before, CROP_HEIGHT_PX - 4, picture.width - after, CROP_HEIGHT_PX - 4), fill=255, width=2)
    width = max(8, round(picture.width * tracking))
    return np.asarray(picture.resize((width, CROP_HEIGHT_PX), Pictures.Resampling.BILINEAR), np.uint8)


def _with_neighbours(ink: Image, above: Image, below: Image, chance: random.Random) -> Image:
    """Return ``ink`` with a strip of the line above at its top or of the line below at its foot."""
    if chance.random() >= NEIGHBOUR_RATE:
        return ink
    strip = chance.randint(2, 7)
    shown = ink.copy()
    other = above if chance.random() < 0.5 else below
    width = min(ink.shape[1], other.shape[1])
    if other is above:
        shown[:strip, :width] = np.maximum(shown[:strip, :width], other[-strip - 4 : -4, :width])
    else:
        shown[-strip:, :width] = np.maximum(shown[-strip:, :width], other[4 : 4 + strip, :width])
    return shown
