"""Three ways in which a good scan becomes a bad one, frozen in ``degradations.json`` and applied to whole pages.

A and B lose resolution and drown in noise, as microfilm and bad photocopies do; C is made one-bit at a threshold at
which letters fill. The settings were tuned once, until the CTC hypothesis of the embedded model erred on 4 to 12 % of
the characters of each, and do not move since. Knows nothing of text or readers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

Pixels = npt.NDArray[np.uint8]

SETTINGS_FILE = Path(__file__).with_name("degradations.json")
AS_IS = "as_is"
"""The name of the page that nothing was done to."""
INK_PERCENTILE, PAPER_PERCENTILE = 1.0, 60.0
"""Gray levels of ink and paper: a text page has more ink than 1 % and less than half."""
WHITE = 255.0
BLACK_OR_WHITE = 0.5


class Degradation(BaseModel):
    """One setting, in the order in which it is applied: blur, shrink, specks, noise, one-bit, enlarge.

    All of it is done to the small page, whose lines are ``line_height_px`` high: so a setting is as hard for a page
    scanned at 150 dpi as for one scanned at 400, where a fixed scale would leave nothing of the first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    line_height_px: float = Field(gt=0, description="height of a text line's box on the small page [px]")
    blur_px: float = Field(ge=0, description="standard deviation of the blur on the small page [px]")
    specks_ratio: float = Field(ge=0, le=1, description="pixels that turn black or white [ratio]")
    noise: float = Field(ge=0, description="standard deviation of the noise [gray levels, ink 0, paper 255]")
    threshold_ratio: float | None = Field(
        None, gt=0, lt=1, description="one-bit: what is darker than this share of the way from ink to paper is black"
    )


@cache
def load_degradations(path: Path = SETTINGS_FILE) -> Mapping[str, Degradation]:
    """Return the frozen settings by name, in the order of the file."""
    settings = json.loads(path.read_text(encoding="utf-8"))["degradations"]
    return {name: Degradation.model_validate(setting) for name, setting in settings.items()}


def degrade(pixels: Pixels, degradation: Degradation, line_height_px: float, seed: str) -> Pixels:
    """Return ``pixels`` [height, width, 3] degraded, gray and of the same size; equal seeds give equal accidents.

    ``line_height_px`` is the usual height of a text line's box on ``pixels``; a page is never enlarged before it is
    degraded.
    """
    import cv2

    height_px, width_px = pixels.shape[:2]
    scale = min(1.0, degradation.line_height_px / line_height_px)
    small_px = (max(1, round(width_px * scale)), max(1, round(height_px * scale)))
    small = np.asarray(cv2.resize(_stretched(pixels), small_px, interpolation=cv2.INTER_AREA), np.float32)
    if degradation.blur_px:
        small = np.asarray(cv2.GaussianBlur(small, (0, 0), degradation.blur_px), np.float32)
    small = _soil(small, degradation, np.random.default_rng(_seed_of(seed)))
    if degradation.threshold_ratio is not None:
        small = np.where(small < degradation.threshold_ratio * WHITE, 0, WHITE).astype(np.float32)
    large = cv2.resize(small, (width_px, height_px), interpolation=cv2.INTER_LINEAR)
    return np.repeat(np.clip(large, 0, WHITE).astype(np.uint8)[:, :, None], 3, axis=2)


def _stretched(pixels: Pixels) -> npt.NDArray[np.float32]:
    """Return gray levels [height, width] with ink at 0 and paper at 255: noise is as strong on brown paper."""
    import cv2

    gray = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.float32)
    ink, paper = np.percentile(gray, (INK_PERCENTILE, PAPER_PERCENTILE))
    return np.asarray(np.clip((gray - ink) * (WHITE / max(1.0, paper - ink)), 0, WHITE), np.float32)


def _soil(page: npt.NDArray[np.float32], degradation: Degradation, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    speck = rng.random(page.shape) < degradation.specks_ratio
    page = np.where(speck, WHITE * (rng.random(page.shape) < BLACK_OR_WHITE), page)
    return np.clip(page + rng.normal(0, degradation.noise, page.shape), 0, WHITE).astype(np.float32)


def _seed_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
