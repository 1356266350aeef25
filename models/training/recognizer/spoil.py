"""What another scanner, another binarisation and another cut would have made of a real line.

Images are uint8 [height, width], ink dark. Every random number comes from the generator passed in.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

UNTOUCHED_RATE = 0.25
CUT_RATIO = 0.10
"""Share of the height that a detector's box may lose or add above and below."""
ONE_BIT_RATE, SMALL_RATE, BLUR_RATE, NOISE_RATE = 0.15, 0.3, 0.3, 0.3


def spoil(line: Image, rng: np.random.Generator) -> Image:
    """Return ``line`` as it could have come as well; one in four stays as it is."""
    if rng.random() < UNTOUCHED_RATE:
        return line
    image: npt.NDArray[np.floating] = _recut(line, rng).astype(np.float32)
    if rng.random() < SMALL_RATE:
        image = _scanned_smaller(image, rng.uniform(0.45, 0.9))
    if rng.random() < BLUR_RATE:
        image = np.asarray(cv2.GaussianBlur(image, (0, 0), rng.uniform(0.3, 1.1)), np.float32)
    image = 255 * np.clip(image / 255, 0, 1) ** rng.uniform(0.6, 1.7)
    image = (image - 128) * rng.uniform(0.6, 1.2) + 128 + rng.uniform(-25, 25)
    if rng.random() < NOISE_RATE:
        image = image + rng.normal(0, rng.uniform(2, 16), image.shape)
    if rng.random() < ONE_BIT_RATE:
        low, high = np.percentile(image, (3, 90))
        image = np.where(image < low + (high - low) * rng.uniform(0.4, 0.7), 0, 255)
    return np.asarray(np.clip(image, 0, 255), np.uint8)


def _recut(line: Image, rng: np.random.Generator) -> Image:
    """Return ``line`` slightly turned and stretched, with a little more or less above and below."""
    height, width = line.shape
    above, below = (round(height * rng.uniform(-CUT_RATIO, CUT_RATIO)) for _ in range(2))
    new_height, new_width = height + above + below, max(8, round(width * rng.uniform(0.9, 1.1)))
    slope = rng.normal(0, 0.004)
    matrix = np.asarray([[new_width / width, 0, 0], [slope, 1, above - slope * width / 2]], np.float32)
    warped = cv2.warpAffine(
        line, matrix, (new_width, new_height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(warped, np.uint8)


def _scanned_smaller(image: npt.NDArray[np.floating], scale: float) -> npt.NDArray[np.float32]:
    height, width = image.shape
    size = (max(8, round(width * scale)), max(12, round(height * scale)))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
