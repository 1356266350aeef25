"""What scanning, copying and age do to a line, in one continuous severity from 0 (as printed) to 1 (hardly legible).

Images are uint8 [height, width], ink dark. Every random number comes from the generator passed in. The settings of
the frozen accuracy benchmark, and everything within 10 % of them, are never drawn: see ``is_clear_of_benchmark``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Style = Literal["grey", "one_bit", "carbon"]
STYLES: tuple[Style, ...] = ("grey", "one_bit", "carbon")
STYLE_WEIGHTS = (0.5, 0.38, 0.12)

CROP_HEIGHT_PX = 48
"""Height of a line's crop before the recogniser scales it to its own."""
BENCHMARK_HEIGHTS_PX = (17.5, 16.0, 14.9)
"""Line heights on the small page of degradations A and B of ``tomeflow bench accuracy``, and of B's first form."""
BENCHMARK_ONE_BIT_HEIGHTS_PX = (*BENCHMARK_HEIGHTS_PX, 22.0)
"""The same for one-bit lines: C is one of them."""
BENCHMARK_CLEARANCE_RATIO = 0.10
"""Training stays at least this far from each of them."""


@dataclass(frozen=True)
class PageDegradation:
    """What all lines of a page have in common."""

    style: Style
    severity: float
    skew: float
    thickness: float
    paper: float
    shadow_side: int
    fading: float


def draw_degradation(rng: np.random.Generator, style: Style, severity: float) -> PageDegradation:
    """Draw what the lines of a page share; ``severity`` in 0..1."""
    return PageDegradation(
        style=style,
        severity=severity,
        skew=float(rng.normal(0, 0.006)),
        thickness=float(rng.normal(0, 0.25 + 0.5 * severity)),
        paper=float(rng.uniform(200 - 50 * severity, 252)),
        shadow_side=int(rng.choice((-1, 0, 0, 1))),
        fading=float(rng.uniform(0, 0.75 * severity)),
    )


def is_clear_of_benchmark(height_px: float, style: Style) -> bool:
    """True when a line scanned ``height_px`` high is more than 10 % from every setting of the frozen benchmark."""
    heights = BENCHMARK_ONE_BIT_HEIGHTS_PX if style == "one_bit" else BENCHMARK_HEIGHTS_PX
    return all(abs(height_px - height) > BENCHMARK_CLEARANCE_RATIO * height for height in heights)


def draw_scale(severity: float, style: Style, rng: np.random.Generator) -> float:
    """Return the scale at which a line is scanned, 1 for full resolution, clear of the benchmark's."""
    while True:
        scale = 1 - severity * float(rng.uniform(0.25, 0.80))
        if is_clear_of_benchmark(scale * CROP_HEIGHT_PX, style):
            return scale


def degrade(ink: Image, degradation: PageDegradation, rng: np.random.Generator, behind: Image | None = None) -> Image:
    """Return a line printed as ``ink`` (0 paper, 255 ink) as it would come out of a scanner.

    ``behind`` is a line of the other side of the leaf, showing through mirrored.
    """
    severity = degradation.severity
    drawn = _pressed(_skewed(ink, degradation.skew), degradation.thickness + float(rng.normal(0, 0.15)), rng)
    paper = _paper(drawn.shape, degradation, rng)
    density = 1 - degradation.fading * _cloud(drawn.shape, rng, 6)
    dark = rng.uniform(0.72, 1.0) * drawn.astype(np.float32) * density
    if behind is not None and rng.random() < 0.25 + 0.5 * severity:
        shown = cv2.GaussianBlur(cv2.resize(behind[:, ::-1], drawn.shape[::-1]), (0, 0), 1.2)
        dark = np.maximum(dark, rng.uniform(0.05, 0.15 + 0.3 * severity) * shown)
    image = np.clip(paper - dark, 0, 255)
    image = _optics(image, degradation, rng)
    if degradation.style == "carbon":
        image = _carbon(image, severity, rng)
    if degradation.style == "one_bit":
        image = _one_bit(image, severity, rng)
    image = _speckled(image, severity, rng)
    return _compressed(np.clip(image, 0, 255).astype(np.uint8), rng)


def rubbish(height_px: int, width_px: int, rng: np.random.Generator) -> Image:
    """Return ink [height, width] that is no text: nothing, rules, hatching, blots or a bit of a picture."""
    ink = np.zeros((height_px, width_px), np.uint8)
    kind = rng.integers(6)
    if kind == 1:
        for _ in range(rng.integers(1, 4)):
            y = int(rng.integers(0, height_px))
            cv2.line(ink, (0, y), (width_px, y + int(rng.integers(-3, 4))), 255, int(rng.integers(1, 5)))
    elif kind == 2:
        step, slant = int(rng.integers(4, 14)), int(rng.integers(-30, 30))
        for x in range(-30, width_px + 30, step):
            cv2.line(ink, (x, 0), (x + slant, height_px), 255, int(rng.integers(1, 4)))
    elif kind == 3:
        for _ in range(rng.integers(1, 8)):
            centre = (int(rng.integers(0, width_px)), int(rng.integers(0, height_px)))
            axes = (int(rng.integers(2, 25)), int(rng.integers(2, 12)))
            cv2.ellipse(ink, centre, axes, float(rng.uniform(0, 180)), 0, 360, 255, int(rng.choice((-1, 1, 2))))
    elif kind == 4:
        ink = (255 * (_cloud(ink.shape, rng, int(rng.integers(4, 30))) > 0.55)).astype(np.uint8)
    elif kind == 5:
        ink = (255 * _cloud(ink.shape, rng, int(rng.integers(3, 20)))).astype(np.uint8)
    return ink


def _skewed(ink: Image, slope: float) -> Image:
    height, width = ink.shape
    matrix = np.asarray([[1, 0, 0], [slope, 1, -slope * width / 2]], np.float32)
    return np.asarray(cv2.warpAffine(ink, matrix, (width, height), flags=cv2.INTER_LINEAR), np.uint8)


def _pressed(ink: Image, amount: float, rng: np.random.Generator) -> Image:
    """Return ``ink`` spread (``amount`` > 0) or starved, unevenly along the line."""
    change = cv2.dilate if amount > 0 else cv2.erode
    changed = change(ink, np.ones((2, 2) if rng.random() < 0.7 else (3, 2), np.uint8))
    share = np.clip(abs(amount) * (0.5 + _cloud(ink.shape, rng, 4)), 0, 1)
    return np.asarray(ink * (1 - share) + changed * share, np.uint8)


def _paper(shape: tuple[int, ...], degradation: PageDegradation, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    width = shape[1]
    paper = degradation.paper + (8 + 20 * degradation.severity) * (_cloud(shape, rng, 5) - 0.5)
    if degradation.shadow_side and rng.random() < 0.6:
        reach = rng.uniform(0.1, 0.5) * width
        distance = np.arange(width) if degradation.shadow_side < 0 else np.arange(width)[::-1]
        depth = rng.uniform(0.1, 0.25 + 0.5 * degradation.severity)
        paper = paper * (1 - depth * np.exp(-distance / reach))[None, :]
    return paper.astype(np.float32)


def _optics(
    image: npt.NDArray[np.float32], degradation: PageDegradation, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Blur, shrink as a scan of few dots an inch would, add sensor noise and specks, enlarge again."""
    height, width = image.shape
    severity = degradation.severity
    image = np.asarray(cv2.GaussianBlur(image, (0, 0), rng.uniform(0.2, 0.5 + 2.2 * severity)), np.float32)
    scale = draw_scale(severity, degradation.style, rng)
    small = (max(8, round(width * scale)), max(6, round(height * scale)))
    image = np.asarray(cv2.resize(image, small, interpolation=cv2.INTER_AREA), np.float32)
    image = image + rng.normal(0, rng.uniform(0, 4 + 38 * severity), image.shape).astype(np.float32)
    if rng.random() < 0.5:
        image = _speckled(image, severity, rng)
    how = cv2.INTER_CUBIC if rng.random() < 0.7 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=how), np.float32)


def _carbon(image: npt.NDArray[np.float32], severity: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """A carbon copy: soft, broken by the ribbon's and the paper's weave, low in contrast."""
    soft = cv2.GaussianBlur(image, (0, 0), 0.6 + 0.7 * severity)
    weave = 1 - (0.25 + 0.45 * severity) * rng.random(image.shape) * _cloud(image.shape, rng, 12)
    paper = float(np.median(soft))
    return np.asarray(paper - (paper - soft) * weave * rng.uniform(0.5, 0.9), np.float32)


def _one_bit(image: npt.NDArray[np.float32], severity: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Black and white at a threshold that wanders: letters fill up in the gutter and break where ink is faint."""
    low, high = np.percentile(image, (3, 90))
    middle = rng.normal(0.55, 0.05 + 0.13 * severity)
    level = low + (high - low) * (middle + (0.1 + 0.25 * severity) * (_cloud(image.shape, rng, 5) - 0.5))
    black = (image < level).astype(np.float32) * 255
    if severity > 0.3 and rng.random() < 0.4:
        black = np.asarray(cv2.medianBlur(black.astype(np.uint8), 3), np.float32)
    return np.asarray(255 - black, np.float32)


def _speckled(image: npt.NDArray[np.float32], severity: float, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    if rng.random() > 0.25 + 0.45 * severity:
        return image
    share = rng.uniform(0, 0.004 + 0.055 * severity)
    draw = rng.random(image.shape)
    image = np.where(draw < share / 2, 0, image)
    return np.asarray(np.where(draw > 1 - share / 2, 255, image), np.float32)


def _compressed(image: Image, rng: np.random.Generator) -> Image:
    if rng.random() < 0.5:
        return image
    _, coded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(45, 96))])
    return np.asarray(cv2.imdecode(coded, cv2.IMREAD_GRAYSCALE), np.uint8)


def _cloud(shape: Sequence[int], rng: np.random.Generator, cells: int) -> npt.NDArray[np.float32]:
    """Return smooth noise [height, width] in 0..1 with about ``cells`` bumps a line height and a half."""
    height, width = shape
    grid = rng.random((2 + cells // 4, max(2, cells * width // (8 * height) + 2))).astype(np.float32)
    return np.clip(cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC), 0, 1)
