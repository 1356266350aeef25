"""Three ways in which a good scan becomes a bad one, frozen in ``degradations.json`` and applied to whole pages.

A and B lose resolution and drown in noise, as microfilm and bad photocopies do; C is made one-bit at a threshold at
which letters fill. The settings were tuned once, until the CTC draft of the embedded model erred on 4 to 12 % of the
characters of each, and do not move since. Knows nothing of text or readers.
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
INK_PERCENTILE, PAPER_PERCENTILE = 1.0, 75.0
"""Gray levels of ink and paper: a text page has more ink than 1 % and less than 25 %."""


class Degradation(BaseModel):
    """One setting, in the order in which it is applied: blur, shrink, specks, noise, one-bit, enlarge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    blur_px: float = Field(ge=0, description="standard deviation of the blur, on the page as it is [px]")
    scale: float = Field(gt=0, le=1, description="how small the page becomes before it is enlarged again [ratio]")
    specks_ratio: float = Field(ge=0, le=1, description="pixels of the small page that turn black or white [ratio]")
    noise: float = Field(ge=0, description="standard deviation of the noise on the small page [gray levels]")
    threshold_ratio: float | None = Field(
        None, gt=0, lt=1, description="one-bit: what is darker than this share of the way from ink to paper is black"
    )


@cache
def load_degradations(path: Path = SETTINGS_FILE) -> Mapping[str, Degradation]:
    """Return the frozen settings by name, in the order of the file."""
    settings = json.loads(path.read_text(encoding="utf-8"))["degradations"]
    return {name: Degradation.model_validate(setting) for name, setting in settings.items()}


def degrade(pixels: Pixels, degradation: Degradation, seed: str) -> Pixels:
    """Return ``pixels`` [height, width, 3] degraded, gray and of the same size; equal seeds give equal accidents."""
    import cv2

    height_px, width_px = pixels.shape[:2]
    gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    if degradation.blur_px:
        gray = cv2.GaussianBlur(gray, (0, 0), degradation.blur_px)
    small_px = (max(1, round(width_px * degradation.scale)), max(1, round(height_px * degradation.scale)))
    small = np.asarray(cv2.resize(gray, small_px, interpolation=cv2.INTER_AREA), np.float32)
    small = _soil(small, degradation, np.random.default_rng(_seed_of(seed)))
    if degradation.threshold_ratio is not None:
        small = _make_one_bit(small, degradation.threshold_ratio)
    large = cv2.resize(small, (width_px, height_px), interpolation=cv2.INTER_LINEAR)
    return np.repeat(np.clip(large, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def _soil(
    page: npt.NDArray[np.float32], degradation: Degradation, dice: np.random.Generator
) -> npt.NDArray[np.float32]:
    speck = dice.random(page.shape) < degradation.specks_ratio
    page = np.where(speck, 255.0 * (dice.random(page.shape) < 0.5), page)
    return np.clip(page + dice.normal(0, degradation.noise, page.shape), 0, 255).astype(np.float32)


def _make_one_bit(page: npt.NDArray[np.float32], threshold_ratio: float) -> npt.NDArray[np.float32]:
    ink, paper = np.percentile(page, (INK_PERCENTILE, PAPER_PERCENTILE))
    return np.where(page < ink + threshold_ratio * (paper - ink), 0, 255).astype(np.float32)


def _seed_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
