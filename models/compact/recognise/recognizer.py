"""Reads text lines: PP-OCRv6's recogniser gives each line frames, and from its CTC head a hypothesis.

Knows nothing of pages beyond the pixels of a line. Lines are read one by one, each padded to a fixed width
bucket, in ``threads`` threads of one session that itself uses one: a line's reading depends on its own
pixels only, not on its neighbours, on a batch or on the number of threads. (In a batch the features of a line
differ by 1e-5, and a second thread of the runtime's own doubles the CPU time of a line: 72 ms against 38.)

A line of any length is read in one piece, never squeezed: 800 characters in a row read as well as 60 (0.16 %
and 0.0 % of characters wrong on noisy generated lines).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from data_contracts.geometry import Quad
from models.compact.line_shape import Direction, Pixels, cut_line, length_px
from models.compact.onnx_weights import BLANK_CLASS, open_recognizer
from models.sr_swa.pages import EncodedLine

LINE_HEIGHT_PX = 48
"""Height of the network's input; fixed in its graph."""
FRAME_WIDTH_PX = 8
"""Width of one frame in the network's input."""
BUCKET_PX = 64
"""Widths are padded to its multiples: few shapes for the runtime, 5 % more pixels."""
SHORTEST_INPUT_PX = 320
"""The network was trained with lines padded to at least this width; less reads short cells of tables worse."""

COARSE_RATIO = 2
"""Lines taller than this many inputs are averaged down: linear interpolation, as in training, would skip pixels."""


@dataclass(frozen=True)
class CtcHypothesis:
    """The CTC head's greedy reading of a line; all arrays [characters].

    ``shares`` say where along the line each character stands, from 0 to 1.
    """

    ids: npt.NDArray[np.int32]
    posteriors: npt.NDArray[np.float32]
    frames: npt.NDArray[np.int32]
    shares: npt.NDArray[np.float64]

    @property
    def confidence(self) -> float:
        """Mean over the characters; 0 without any."""
        return float(self.posteriors.mean()) if len(self.posteriors) else 0.0

    @classmethod
    def of(cls, line: EncodedLine) -> Self:
        """Return the hypothesis that ``line`` carries."""
        shares = (line.ctc_frames.astype(np.float64) + 0.5) * line.frame_px / length_px(line.quad, line.direction)
        return cls(line.ctc_ids, line.ctc_posteriors, line.ctc_frames, shares)


@dataclass(frozen=True)
class _Output:
    """What the network says of a line image; frames of padding are cut off, except half a frame at most."""

    features: npt.NDArray[np.float32]
    top_ids: npt.NDArray[np.int32]
    top_posteriors: npt.NDArray[np.float32]
    width_px: int

    def reading(self) -> CtcHypothesis:
        ids, posteriors, frames = collapse(self.top_ids, self.top_posteriors)
        return CtcHypothesis(
            ids, posteriors, frames, (frames.astype(np.float64) + 0.5) * FRAME_WIDTH_PX / self.width_px
        )


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

        def read_one(quad: Quad, direction: Direction) -> EncodedLine:
            return self._encode(cut_line(pixels, quad, direction), quad, direction)

        return list(self._pool.map(read_one, quads, directions))

    def read_images(self, lines: Iterable[Pixels]) -> list[CtcHypothesis]:
        """Return what line images [height, width, 3], text along x, say."""
        return list(self._pool.map(lambda line: self._run(line).reading(), lines))

    def _encode(self, line: Pixels, quad: Quad, direction: Direction) -> EncodedLine:
        output = self._run(line)
        reading = output.reading()
        return EncodedLine(
            quad=quad,
            direction=direction,
            frames=output.features.astype(np.float16),
            ctc_ids=reading.ids,
            ctc_posteriors=reading.posteriors,
            ctc_frames=reading.frames,
            top_ids=output.top_ids,
            top_posteriors=output.top_posteriors.astype(np.float16),
            frame_px=FRAME_WIDTH_PX * line.shape[1] / output.width_px,
        )

    def _run(self, line: Pixels) -> _Output:
        image, width_px = to_input(line)
        features, posteriors, ids = self._network.run(image)
        frames = -(-width_px // FRAME_WIDTH_PX)
        return _Output(features[0, :frames], ids[0, :frames].astype(np.int32), posteriors[0, :frames], width_px)


def collapse(
    top_ids: npt.NDArray[np.int32], top_posteriors: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """Return ids, posteriors and frames [characters] of the greedy CTC reading of [frames, 8] best classes.

    A run of frames with the same best class is one character, and stands at the run's surest frame.
    """
    best, sureness = top_ids[:, 0], top_posteriors[:, 0]
    starts = np.flatnonzero(np.diff(best, prepend=-1))
    runs = np.split(np.arange(len(best)), starts[1:])
    peaks = np.asarray(
        [run[np.argmax(sureness[run])] for run in runs if len(run) and best[run[0]] != BLANK_CLASS], np.int32
    )
    return best[peaks].astype(np.int32), sureness[peaks].astype(np.float32), peaks


def to_input(line: Pixels) -> tuple[npt.NDArray[np.float32], int]:
    """Return ``line`` as float32 [1, 3, 48, bucket] in -1..1, blue first, and its width without padding [px]."""
    import cv2

    height_px, width_px = line.shape[:2]
    scaled_px = max(1, -(-LINE_HEIGHT_PX * width_px // height_px))
    filter_ = cv2.INTER_AREA if height_px > COARSE_RATIO * LINE_HEIGHT_PX else cv2.INTER_LINEAR
    scaled = cv2.resize(np.ascontiguousarray(line), (scaled_px, LINE_HEIGHT_PX), interpolation=filter_)
    bucket_px = max(SHORTEST_INPUT_PX, -(-scaled_px // BUCKET_PX) * BUCKET_PX)
    image = np.zeros((1, 3, LINE_HEIGHT_PX, bucket_px), np.float32)
    image[0, :, :, :scaled_px] = scaled[:, :, ::-1].transpose(2, 0, 1) / np.float32(127.5) - np.float32(1)
    return image, scaled_px
