"""A scanner for pages that were never on paper: clean ink becomes a gray picture of an old, tilted, thumbed page.

All images are [height, width]. Ink is float32 from 0 (paper) to 1 (black); a scan is uint8. Every accident is drawn
from the generator that is passed in, so equal seeds give equal scans. Knows nothing of text or PDFs.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

Ink = npt.NDArray[np.float32]
Scan = npt.NDArray[np.uint8]

PAPER_GRAY = (222.0, 238.0)  # darkest and lightest sheet of a book
INK_GRAY = (34.0, 58.0)  # printer's ink has faded
SKEW_DEGREES = 0.9
SHIFT_PX = 6.0
INK_SPREAD_PX = (0.45, 0.75)
LENS_BLUR_PX = (0.55, 0.9)
BLEED_RATIO = (0.05, 0.12)  # of the ink of the page behind
BLEED_BLUR_PX = 2.2
PAPER_TO_INK_GRAY = 185.0  # about what lies between the two
GRAIN_GRAY = (2.5, 4.5)
STAIN_GRAY = 3.5
STAIN_CELL_PX = 150  # size of a cloud in the paper
UNEVEN_INK_RATIO = 0.22
UNEVEN_INK_CELL_PX = 40
LIGHT_FALL_RATIO = 0.12  # from one corner to the opposite one
GUTTER_RATIO = 0.35  # how much darker the fold is
GUTTER_REACH_PX = 45.0
SPECKS = 40


def scan_page(ink: Ink, behind: Ink | None, rng: np.random.Generator, *, recto: bool) -> Scan:
    """Return the picture of a page, with the page ``behind`` shining through, mirrored.

    A ``recto`` lies to the right of the fold, so its left side is dark.
    """
    height, width = ink.shape
    printed = _press(ink, rng)
    sheet = float(rng.uniform(*PAPER_GRAY)) + STAIN_GRAY * _clouds(height, width, STAIN_CELL_PX, rng)
    if behind is not None:
        ghost = _blurred(behind[:, ::-1], BLEED_BLUR_PX)
        sheet -= float(rng.uniform(*BLEED_RATIO)) * PAPER_TO_INK_GRAY * ghost
    picture = _lay_down(sheet + (float(rng.uniform(*INK_GRAY)) - sheet) * printed, rng)
    picture = _blurred(picture * _light(height, width, rng, recto=recto), rng.uniform(*LENS_BLUR_PX))
    grain = rng.uniform(*GRAIN_GRAY) * rng.standard_normal(picture.shape, dtype=np.float32)
    return np.clip(np.rint(picture + grain), 0, 255).astype(np.uint8)


def _press(ink: Ink, rng: np.random.Generator) -> Ink:
    """Return the ink as the paper took it: spread a little, thinner here and there, with specks of dirt."""
    height, width = ink.shape
    thinness = UNEVEN_INK_RATIO * np.abs(_clouds(height, width, UNEVEN_INK_CELL_PX, rng))
    taken = _blurred(ink, rng.uniform(*INK_SPREAD_PX)) * (1 - thinness)
    for x, y, strength in zip(
        rng.integers(0, width, SPECKS), rng.integers(0, height, SPECKS), rng.uniform(0.2, 0.7, SPECKS), strict=True
    ):
        cv2.circle(taken, (int(x), int(y)), int(rng.integers(0, 2)), float(strength), -1, cv2.LINE_AA)
    return np.clip(taken, 0, 1)


def _lay_down(picture: Ink, rng: np.random.Generator) -> Ink:
    """Return the sheet as it lay on the glass: turned and shifted a little."""
    height, width = picture.shape
    degrees = rng.uniform(-SKEW_DEGREES, SKEW_DEGREES)
    turn = np.asarray(cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0), dtype=np.float64)
    turn[:, 2] += rng.uniform(-SHIFT_PX, SHIFT_PX, 2)
    return np.asarray(
        cv2.warpAffine(picture, turn, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE),
        dtype=np.float32,
    )


def _light(height: int, width: int, rng: np.random.Generator, *, recto: bool) -> Ink:
    """Return the light on each point: brightest at one corner, and next to none in the fold."""
    angle = rng.uniform(0, 2 * math.pi)
    x, y = np.linspace(-0.5, 0.5, width, dtype=np.float32), np.linspace(-0.5, 0.5, height, dtype=np.float32)[:, None]
    slope = 1 + LIGHT_FALL_RATIO * (math.cos(angle) * x + math.sin(angle) * y)
    from_fold_px = np.arange(width, dtype=np.float32) if recto else np.arange(width, dtype=np.float32)[::-1]
    fold = 1 - GUTTER_RATIO * np.exp(-from_fold_px / GUTTER_REACH_PX)
    return np.asarray(slope * fold, dtype=np.float32)


def _blurred(image: Ink, sigma_px: float) -> Ink:
    return np.asarray(cv2.GaussianBlur(image, (0, 0), sigma_px), dtype=np.float32)


def _clouds(height: int, width: int, cell_px: int, rng: np.random.Generator) -> Ink:
    """Return smooth noise of deviation about 1, whose blots are ``cell_px`` wide."""
    coarse = rng.normal(0, 1, (height // cell_px + 2, width // cell_px + 2)).astype(np.float32)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), dtype=np.float32)
