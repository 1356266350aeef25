"""Finds text lines on a page: PP-OCRv6's line detector and RapidOCR's DB post-processing.

Knows nothing of reading order or characters. A page is shrunk until its longer side is ``side_px``, never
enlarged; its right and bottom edge are padded, not stretched, to the network's multiple of 32 px. Where that leaves
type too small to be seen (``small_type.py``), the page is looked at again in overlapping tiles of that side. Their
probabilities are put together to one map before boxes are drawn, so no line is cut or doubled where tiles meet.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Quad
from models.compact.detect.merge_views import merge_views
from models.compact.detect.small_type import SmallLetters, small_letters, small_lines, thinness_px
from models.compact.detect.tiles import tiles
from models.compact.onnx_weights import open_detector

STRIDE_PX = 32
"""The network halves the image five times."""
MAX_LINES = 5000
"""Above any real page, so that no line is lost to a cap; RapidOCR's 1,000 is reached by dense directories."""
PROBABILITY_THRESHOLD = 0.3
BOX_THRESHOLD = 0.5
"""Both as in rapidocr 3.10.0's configuration for these weights."""
UNCLIP_RATIO = 1.45
"""How far a box grows over the network's shrunken line. Its configuration says 1.6, at twice this resolution, where
boxes come out 3 % thinner; letters in a thinner box are larger to the recogniser. Errors on generated pages at 1.9,
1.6, 1.45 and 1.3: 81,456 characters of the sample book 68, 69, 69, 67; 18,763 of two Fraktur faces 928, 838, 807, 801;
8,787 of an antiqua 10, 11, 11, 13."""

SPARSE_LINES = 3
"""A page with fewer lines is looked at again beside a line of our own."""
TILE_LINE_PX = 24.0
"""Thickness of small lines in tiles: that of ordinary ones in a view of an ordinary page."""
COMPANION_PX = 2 * STRIDE_PX
COMPANION_TEXT = "the keeper climbed the tower at dusk and lit the lamp "


class LineDetector:
    """Finds the text lines of one page at a time; the same pixels give the same lines."""

    def __init__(self, side_px: int, threads: int, folder: Path | None = None) -> None:
        """Open the network for images of at most ``side_px``.

        Raises:
            ModelUnavailable: the weights are missing or not the expected ones.
        """
        self._side_px = side_px
        self._session = open_detector(threads, folder)

        from rapidocr.ch_ppocr_det.utils import DBPostProcess  # after the version of the package has been checked

        self._boxes = DBPostProcess(
            thresh=PROBABILITY_THRESHOLD,
            box_thresh=BOX_THRESHOLD,
            max_candidates=MAX_LINES,
            unclip_ratio=UNCLIP_RATIO,
            use_dilation=True,
        )

    def detect(self, pixels: npt.NDArray[np.uint8]) -> list[Quad]:
        """Return the lines on ``pixels`` [height, width, 3] in no useful order.

        Corners are page pixels: top left, top right, bottom right, bottom left, whichever way the text runs.
        """
        image, scale = _fit(pixels, self._side_px)
        quads = self._find(image, pixels.shape[0], pixels.shape[1], scale)
        if len(quads) < SPARSE_LINES:
            quads = max(quads, self._find(_with_companion(image), pixels.shape[0], pixels.shape[1], scale), key=len)
        letters = small_letters(pixels, quads, scale)
        tile_scale = self._tile_scale(pixels, letters, scale) if letters else scale
        if letters is None or tile_scale <= scale:
            return quads
        return merge_views(quads, self._find_in_tiles(pixels, letters, tile_scale))

    def _find(self, image: npt.NDArray[np.uint8], height_px: int, width_px: int, scale: float) -> list[Quad]:
        """Return the lines in ``image``, the page shrunk by ``scale``, as they lie on the page; none below it."""
        return self._draw_boxes(self._probability(image), height_px, width_px, scale)

    def _probability(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return [height, width]: how likely each pixel of ``image`` is inside a line."""
        return np.asarray(self._session.run(None, {"x": _normalise(image)})[0][0, 0], np.float32)

    def _draw_boxes(
        self, probability: npt.NDArray[np.float32], height_px: int, width_px: int, scale: float
    ) -> list[Quad]:
        size = probability.shape[0] / scale, probability.shape[1] / scale
        found, _ = self._boxes(probability[None, None], size)
        return [_clip(corners, width_px, height_px) for corners in found if corners[:, 1].mean() < height_px]

    def _tile_scale(self, pixels: npt.NDArray[np.uint8], letters: SmallLetters, scale: float) -> float:
        """Return the scale at which small type is seen best, on evidence of a try where most of it stands.

        It is ``scale`` where no line of it is found there.
        """
        left, top = letters.densest_window(self._side_px)
        window = pixels[top : top + self._side_px, left : left + self._side_px]
        image, _ = _fit(window, self._side_px)
        found = self._find(_with_companion(image), window.shape[0], window.shape[1], 1.0)
        lines = [line for line in small_lines(found, scale) if letters.make_word(line, (left, top))]
        return min(1.0, TILE_LINE_PX / float(np.median([thinness_px(line) for line in lines]))) if lines else scale

    def _find_in_tiles(self, pixels: npt.NDArray[np.uint8], letters: SmallLetters, scale: float) -> list[Quad]:
        """Return the lines in those parts of the page, shrunk by ``scale``, where ``letters`` make words."""
        image = _shrunk(pixels, scale)
        probability = np.zeros(image.shape[:2], np.float32)
        for core, view in tiles(image.shape[0], image.shape[1], self._side_px):
            if letters.any_in(*(side / scale for side in (core.left, core.top, core.right, core.bottom))):
                seen, _ = _fit(image[view.rows, view.columns], self._side_px)
                found = self._probability(_with_companion(seen))
                probability[core.rows, core.columns] = found[core.seen_from(view)]
        lines = self._draw_boxes(probability, pixels.shape[0], pixels.shape[1], scale)
        return [line for line in lines if letters.make_word(line, (0, 0))]


def _fit(pixels: npt.NDArray[np.uint8], side_px: int) -> tuple[npt.NDArray[np.uint8], float]:
    """Return ``pixels`` shrunk to ``side_px`` and padded to the stride, and the scale used."""
    import cv2

    scale = min(1.0, side_px / max(pixels.shape[:2]))
    pixels = _shrunk(pixels, scale)
    bottom, right = (math.ceil(side / STRIDE_PX) * STRIDE_PX - side for side in pixels.shape[:2])
    return np.asarray(cv2.copyMakeBorder(pixels, 0, bottom, 0, right, cv2.BORDER_REPLICATE), np.uint8), scale


def _shrunk(pixels: npt.NDArray[np.uint8], scale: float) -> npt.NDArray[np.uint8]:
    import cv2

    if scale == 1:
        return pixels
    size = (max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def _with_companion(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return ``image`` with a line of our own below it.

    The network weighs its channels by their mean over the whole page, so on an almost empty one it overlooks what it
    finds beside any full line: a lone word or number at 9 to 18 points was found on 6 of 90 generated pages without
    the companion, on 90 with it.
    """
    import cv2

    paper = np.median(image.reshape(-1, 3), axis=0).astype(np.uint8)
    ink = (0, 0, 0) if paper.mean() > 127 else (255, 255, 255)
    strip = np.full((COMPANION_PX, image.shape[1], 3), paper, np.uint8)
    text = COMPANION_TEXT * (1 + image.shape[1] // 500)
    cv2.putText(strip, text, (20, STRIDE_PX + 10), cv2.FONT_HERSHEY_COMPLEX, 0.6, ink, 1, cv2.LINE_AA)
    return np.concatenate([image, strip])


def _normalise(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return RGB ``image`` as float32 [1, 3, height, width] in -1..1, blue first as the network learnt it."""
    channels = image[:, :, ::-1].transpose(2, 0, 1)[None]
    return np.ascontiguousarray(channels, np.float32) / np.float32(127.5) - np.float32(1)


def _clip(corners: npt.NDArray[np.float32], width_px: int, height_px: int) -> Quad:
    points = [(min(max(float(x), 0), width_px - 1), min(max(float(y), 0), height_px - 1)) for x, y in corners]
    return points[0], points[1], points[2], points[3]
