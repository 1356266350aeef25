"""Records of a page on its way through a model: the image, what was encoded of it, what was decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from data_contracts.geometry import Quad
from data_contracts.result import BlankReason, Line

Rotation = Literal[0, 90, 180, 270]


@dataclass(frozen=True)
class PageImage:
    """One rendered page. ``pixels`` is uint8 [height, width, 3], RGB, not yet turned upright."""

    page_number: int
    pixels: npt.NDArray[np.uint8]
    dpi: float


@dataclass(frozen=True)
class EncodedLine:
    """One text line as the recogniser encodes it; never the full [frames, classes] posteriors.

    ``ctc_ids`` [characters] are class ids of the CTC head, ``ctc_posteriors`` [characters] their
    probabilities, ``ctc_frames`` [characters] the frame each one peaks at.
    ``top_ids``/``top_posteriors`` [frames, 8] are the best classes of each frame, blank (0) included.
    ``frame_px`` is the width of one frame along the line in page pixels.
    """

    quad: Quad
    direction: Literal["horizontal", "vertical"]
    frames: npt.NDArray[np.float16]
    ctc_ids: npt.NDArray[np.int32]
    ctc_posteriors: npt.NDArray[np.float32]
    ctc_frames: npt.NDArray[np.int32]
    top_ids: npt.NDArray[np.int32]
    top_posteriors: npt.NDArray[np.float16]
    frame_px: float


@dataclass(frozen=True)
class EncodedPage:
    """A pure function of one page image: lines in reading order, or features of a large model.

    ``features`` [tokens, dim] is None for models that read lines. ``unread_ratio`` is the share of the print in the
    lines found on the page that no character accounts for.
    """

    page_number: int
    width_px: int
    height_px: int
    dpi: float
    rotation: Rotation = 0
    lines: tuple[EncodedLine, ...] = ()
    blank_reason: BlankReason | None = None
    features: torch.Tensor | None = None
    unread_ratio: float = 0.0


@dataclass(frozen=True)
class FailedPage:
    """A page that could not be rendered or encoded; it keeps its place."""

    page_number: int
    error: str
    width_px: int = 0
    height_px: int = 0
    dpi: float = 0.0
    rotation: Rotation = 0


@dataclass(frozen=True)
class Decoding:
    """What a model returns for one page.

    ``token_ids`` is the output, for the repetition guards of later pages. ``window_mass`` maps a window page's
    number to the attention mass [tokens] its tokens received: sum over steps, mean over heads and layers (a model
    that attends through ``Step`` returns ``context.window_mass()``). A ``stop_reason`` other than "complete" makes
    the page truncated. A page without lines says why in ``blank_reason``. ``step_ms`` are durations of decode steps.
    """

    lines: tuple[Line, ...]
    token_ids: tuple[int, ...] = ()
    uncertainty: float = 0.0
    window_mass: Mapping[int, torch.Tensor] = field(default_factory=dict)
    stop_reason: str = "complete"
    blank_reason: BlankReason | None = None
    step_ms: tuple[float, ...] = ()
