"""Reads text lines: PP-OCRv6's recogniser gives each line frames, and from its CTC head a draft.

Knows nothing of pages beyond the pixels of a line. Lines are read one by one, each padded to a fixed width
bucket, in ``threads`` threads of one session that itself uses one: a line's reading depends on its own
pixels only, not on its neighbours, on the batch or on the number of threads. (In a batch the same line
differs by 1e-5, and the runtime's own second thread gains nothing on lines: 38 ms of CPU a line against 72.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Quad
from models.compact.onnx_weights import BLANK_CLASS, open_recognizer
from models.sr_swa.protocol import EncodedLine

Direction = Literal["horizontal", "vertical"]
Pixels = npt.NDArray[np.uint8]

LINE_HEIGHT_PX = 48
"""Height of the network's input; fixed in its graph."""
FRAME_WIDTH_PX = 8
"""Width of one frame in the network's input."""
BUCKET_PX = 64
"""Widths are padded to its multiples: few shapes, 5 % more pixels."""
SHORTEST_INPUT_PX = 320
"""The network was trained with lines padded to at least this width; short cells of tables are read worse in less."""


@dataclass(frozen=True)
class Draft:
    """What the CTC head says of a line: ids, probabilities and frames of its characters [characters]."""

    ids: npt.NDArray[np.int32]
    posteriors: npt.NDArray[np.float32]
    frames: npt.NDArray[np.int32]

    @property
    def confidence(self) -> float:
        """Mean probability of the characters; 0 without any."""
        return float(self.posteriors.mean()) if len(self.posteriors) else 0.0


class LineRecognizer:
    """Reads lines of a page. Invariant: what it returns for a line is a function of the line's pixels alone."""

    def __init__(self, threads: int, folder: Path | None = None) -> None:
        """Open the network for ``threads`` lines at a time.

        Raises:
            ModelUnavailable: the weights are missing or not the expected ones.
        """
        self._network = open_recognizer(1, folder)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="recognizer")

    @property
    def characters(self) -> tuple[str, ...]:
        """The character of each class id; the blank's is empty."""
        return self._network.characters

    def text(self, ids: Iterable[int]) -> str:
        """Return the characters of ``ids`` as they stand."""
        return "".join(self._network.characters[index] for index in ids)

    def read(self, pixels: Pixels, quads: Sequence[Quad], directions: Sequence[Direction]) -> list[EncodedLine]:
        """Return the lines at ``quads`` of ``pixels`` [height, width, 3], in the given order."""

        def one(quad: Quad, direction: Direction) -> EncodedLine:
            return self._read_line(cut_line(pixels, quad, direction), quad, direction)

        return list(self._pool.map(one, quads, directions))

    def confidences(self, crops: Iterable[Pixels]) -> list[float]:
        """Return how sure the head is of each line image [height, width, 3]."""
        return list(self._pool.map(lambda crop: collapse(*self._run(crop)[1:]).confidence, crops))

    def _read_line(self, crop: Pixels, quad: Quad, direction: Direction) -> EncodedLine:
        frames, ids, posteriors = self._run(crop)
        draft = collapse(ids, posteriors)
        return EncodedLine(
            quad=quad,
            direction=direction,
            frames=frames.astype(np.float16),
            draft_ids=draft.ids,
            draft_posteriors=draft.posteriors,
            draft_frames=draft.frames,
            top_ids=ids,
            top_posteriors=posteriors.astype(np.float16),
            frame_px=FRAME_WIDTH_PX * crop.shape[0] / LINE_HEIGHT_PX,
        )

    def _run(self, crop: Pixels) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return features [frames, 120], top ids and top posteriors [frames, 8] of the part that is not padding."""
        image, width_px = _to_input(crop)
        features, posteriors, ids = self._network.run(image)
        frames = -(-width_px // FRAME_WIDTH_PX)
        return features[0, :frames], ids[0, :frames].astype(np.int32), posteriors[0, :frames]


def cut_line(pixels: Pixels, quad: Quad, direction: Direction) -> Pixels:
    """Return the line at ``quad`` as an image whose text runs along x; a vertical line is turned counter-clockwise."""
    import cv2

    corners = np.asarray(quad, np.float32)
    top, right, bottom, left = np.linalg.norm(corners - np.roll(corners, -1, axis=0), axis=1)
    width_px, height_px = max(1, int(max(top, bottom))), max(1, int(max(left, right)))
    flat = np.asarray([(0, 0), (width_px, 0), (width_px, height_px), (0, height_px)], np.float32)
    line = cv2.warpPerspective(
        pixels,
        cv2.getPerspectiveTransform(corners, flat),
        (width_px, height_px),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(np.rot90(line) if direction == "vertical" else line, np.uint8)


def collapse(ids: npt.NDArray[np.int32], posteriors: npt.NDArray[Any]) -> Draft:
    """Return the greedy CTC reading of top ids and top posteriors [frames, 8].

    A run of frames with the same best class is one character, at the run's surest frame.
    """
    best, sureness = ids[:, 0], posteriors[:, 0]
    starts = np.flatnonzero(np.diff(best, prepend=-1))
    runs = [run for run in np.split(np.arange(len(best)), starts[1:]) if len(run) and best[run[0]] != BLANK_CLASS]
    peaks = np.asarray([run[np.argmax(sureness[run])] for run in runs], np.int32)
    return Draft(best[peaks].astype(np.int32), sureness[peaks].astype(np.float32), peaks)


def _to_input(crop: Pixels) -> tuple[npt.NDArray[np.float32], int]:
    """Return ``crop`` as float32 [1, 3, 48, bucket] in -1..1, blue first, and the width that is not padding [px]."""
    import cv2

    height_px, width_px = crop.shape[:2]
    scaled_px = max(1, -(-LINE_HEIGHT_PX * width_px // height_px))
    filter_ = cv2.INTER_AREA if height_px > LINE_HEIGHT_PX else cv2.INTER_CUBIC
    line = cv2.resize(np.ascontiguousarray(crop), (scaled_px, LINE_HEIGHT_PX), interpolation=filter_)
    bucket_px = max(SHORTEST_INPUT_PX, -(-scaled_px // BUCKET_PX) * BUCKET_PX)
    image = np.zeros((1, 3, LINE_HEIGHT_PX, bucket_px), np.float32)
    image[0, :, :, :scaled_px] = line[:, :, ::-1].transpose(2, 0, 1) / np.float32(127.5) - np.float32(1)
    return image, scaled_px
