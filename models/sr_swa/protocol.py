"""The seam between the loop and a model: what a model is given and what it owes.

The loop (``continuous.py``), window, store, gate, controller and state know nothing of the
implementations behind ``OcrModel``; a model knows nothing of files, PDFs or Prefect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch

from data_contracts.geometry import Quad
from data_contracts.result import BlankReason, Line
from models.sr_swa.rotary import RopeCode

if TYPE_CHECKING:
    from models.sr_swa.context import AttentionContext
    from models.sr_swa.kv import KVBlock

Rotation = Literal[0, 90, 180, 270]


@dataclass(frozen=True)
class Geometry:
    """The shape of a decoder's key-value memory.

    ``page_tokens`` is the capacity of one window slot; ``rope_theta`` is the base frequency of rotary positions, or the
    model's own rotary code, or None when keys carry no position. ``draft_tokens`` is how many drafted outputs are
    verified in one pass: the tail has that much room beside what it shows.
    """

    layers: int
    kv_heads: int
    head_dim: int
    page_tokens: int
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    query_heads: int | None = None
    rope_theta: float | RopeCode | None = 10_000.0
    max_positions: int = 32_768
    sink_tokens: int = 0
    prompt_tokens: int = 0
    draft_tokens: int = 0
    landmarks: Literal["mean", "tokens"] = "mean"
    """How a reference is found again: by the mean of its page's keys, or by its best single token (word memories)."""
    payload: Mapping[str, tuple[tuple[int, ...], torch.dtype]] = field(default_factory=dict)
    """What a token carries beside key and value: name -> (shape of one token, dtype). A part named ``rarity``
    decides, among tokens of equal attention mass, which ones a reference keeps."""

    @property
    def bytes_per_token(self) -> int:
        """Keys and values of one token over all layers [bytes]; the payload is not counted."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True)
class PageImage:
    """One rendered page. ``pixels`` is uint8 [height, width, 3], RGB, not yet turned upright."""

    page_number: int
    pixels: npt.NDArray[np.uint8]
    dpi: float


@dataclass(frozen=True)
class EncodedLine:
    """One text line as the eyes see it; never the full [frames, classes] posteriors.

    ``draft_ids`` [characters] are class ids of the CTC head, ``draft_posteriors`` [characters] their
    probabilities, ``draft_frames`` [characters] the frame each one peaks at.
    ``top_ids``/``top_posteriors`` [frames, 8] are the best classes of each frame, blank (0) included.
    ``frame_px`` is the width of one frame along the line in page pixels.
    """

    quad: Quad
    direction: Literal["horizontal", "vertical"]
    frames: npt.NDArray[np.float16]
    draft_ids: npt.NDArray[np.int32]
    draft_posteriors: npt.NDArray[np.float32]
    draft_frames: npt.NDArray[np.int32]
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


class OcrModel(Protocol):
    """A reader of pages."""

    @property
    def fingerprint(self) -> str:
        """Weights, device class and dtype: two models with one fingerprint read alike."""

    @property
    def geometry(self) -> Geometry:
        """The shape of its key-value memory."""

    def encode_visual(self, image: PageImage) -> EncodedPage:
        """Encode one page; a pure function of it, called by the encode task only."""

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Return the page's keys and values [layers, kv_heads, tokens, head_dim].

        Either a block of the model's own, keys un-rotated, which the loop copies into a window slot and forgets;
        or ``context.page_block(page.page_number)``, the slot that the model has filled through
        ``context.open_page``. May be called again for the same page, and must then return the same.

        Raises:
            DecodeFailed: the page cannot be read.
        """

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Read the page within ``context``; the model fetches references through it.

        Raises:
            DecodeFailed: the page cannot be read.
        """
