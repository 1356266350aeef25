"""Why a page without a line of text has none: a verdict on evidence in its pixels.

Knows nothing of lines. A page is looked at small and grey: its *paper* is the tone of most of its large-scale
light, *ink* what is much darker than the paper around it, *shade* what is a little darker.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data_contracts.result import BlankReason
from models.compact.line_shape import Pixels

VIEW_SIDE_PX = 400
"""Longer side of the view, about 35 dpi: letters blur into grey, engravings and letters from behind stay."""
BORDER_RATIO = 0.05
"""Share of each side that is not looked at: shadows of the gutter, scanner beds, black borders."""
PAPER_PATCH_RATIO = 0.125
"""Side of the patch whose brightest tenth is the paper there; uneven light changes more slowly."""
INK_CONTRAST = 0.25
"""Share of the paper's brightness that ink swallows, blurred as it is here; print from behind swallows less."""
SHADE_CONTRAST = 0.05
"""The same for print that shows through; paper grain and compression stay below after shrinking and smoothing."""
GRAIN_PX = 0.8
"""Smoothing of the view: grain has no neighbours and vanishes, print is wider than this."""
DARKEST_PAPER = 0.2
"""Brightness below which contrast is measured against this, not the paper: on black, noise is a large share of it."""
PICTURE_INK_RATIO = 0.005
"""Share of the page that a picture covers with ink: half a square centimetre on an octavo page. Specks are less."""
SHOW_THROUGH_SHADE_RATIO = 0.02
"""Share of the page that print from behind shades: some two lines of it. Stains and creases are mostly less."""
SOLID_BRIGHTNESS = 0.35
"""Paper darker than this, of 1 for white, is no paper: a cover, a black sheet, a closed lid."""
SOLID_COLOURFULNESS = 0.35
"""Difference between strongest and weakest channel above which a plain sheet is coloured; old paper reaches 0.3."""


@dataclass(frozen=True)
class Evidence:
    """What the verdict rests on, all from 0 to 1."""

    brightness: float
    colourfulness: float
    ink_ratio: float
    shade_ratio: float

    @property
    def reason(self) -> BlankReason:
        """The verdict."""
        if self.ink_ratio >= PICTURE_INK_RATIO:
            return BlankReason.PICTURE_ONLY
        if self.brightness < SOLID_BRIGHTNESS or self.colourfulness > SOLID_COLOURFULNESS:
            return BlankReason.SOLID
        return BlankReason.SHOW_THROUGH if self.shade_ratio >= SHOW_THROUGH_SHADE_RATIO else BlankReason.EMPTY


def why_blank(pixels: Pixels) -> BlankReason:
    """Return why ``pixels`` [height, width, 3] bear no text."""
    return gather_evidence(pixels).reason


def gather_evidence(pixels: Pixels) -> Evidence:
    """Measure ``pixels`` [height, width, 3]."""
    view = _shrink(pixels)
    grey = _without_grain(view.mean(axis=2))
    paper = _paper(grey)
    darkening = (paper - grey) / np.maximum(paper, DARKEST_PAPER)
    tone = np.median(view.reshape(-1, 3), axis=0)
    ink = darkening >= INK_CONTRAST
    shade = (darkening >= SHADE_CONTRAST) & ~ink
    return Evidence(float(np.median(paper)), float(tone.max() - tone.min()), float(ink.mean()), float(shade.mean()))


def _shrink(pixels: Pixels) -> npt.NDArray[np.float64]:
    """Return the inner part of the page as [height, width, 3] in 0..1, small."""
    import cv2

    height_px, width_px = pixels.shape[:2]
    top, left = int(height_px * BORDER_RATIO), int(width_px * BORDER_RATIO)
    inner = pixels[top : height_px - top, left : width_px - left]
    scale = min(1.0, VIEW_SIDE_PX / max(inner.shape[:2]))
    size = (max(1, round(inner.shape[1] * scale)), max(1, round(inner.shape[0] * scale)))
    return np.asarray(cv2.resize(inner, size, interpolation=cv2.INTER_AREA), np.float64) / 255


def _without_grain(grey: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    import cv2

    return np.asarray(cv2.GaussianBlur(grey, (0, 0), GRAIN_PX), np.float64)


def _paper(grey: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the brightness of the paper around each pixel: the bright tenth of its patch, spread smoothly."""
    import cv2

    side = max(1, round(max(grey.shape) * PAPER_PATCH_RATIO))
    rows, columns = (max(1, round(length / side)) for length in grey.shape)
    patches = [
        [np.percentile(part, 90) for part in np.array_split(band, columns, axis=1)]
        for band in np.array_split(grey, rows, axis=0)
    ]
    return np.asarray(cv2.resize(np.asarray(patches), grey.shape[::-1], interpolation=cv2.INTER_LINEAR), np.float64)
