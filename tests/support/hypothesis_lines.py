"""Lines as the recogniser would give them, made without it: frames that look like letters, and a hypothesis of them."""

from __future__ import annotations

import string

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from models.compact.decode.decoder import FrozenHead
from models.compact.onnx_weights import FEATURE_DIM
from models.compact.recognise.recognizer import collapse
from models.sr_swa.pages import EncodedLine

ALPHABET = ("", *string.ascii_lowercase, " ", *string.digits)
FRAMES_A_CHARACTER = 3
SHARPNESS = 14.0
"""Logit of a clean letter, as on the real head."""
TOP_CLASSES = 8


def small_head() -> FrozenHead:
    """A head of 38 classes with random letter shapes of unit length."""
    generator = torch.Generator().manual_seed(0)
    weight = F.normalize(torch.randn(len(ALPHABET), FEATURE_DIM, generator=generator), dim=1)
    return FrozenHead.of(weight * SHARPNESS, torch.zeros(len(ALPHABET)))


def hypothesis_line(text: str, seed: int, noise: float = 0.05) -> EncodedLine:
    """The line ``text`` with ``noise`` on its frames; at 0.35 about a tenth of the hypothesis is wrong."""
    rng = np.random.default_rng(seed)
    head = small_head()
    classes = np.zeros(FRAMES_A_CHARACTER * len(text) + 2, np.int64)
    classes[1::FRAMES_A_CHARACTER][: len(text)] = [ALPHABET.index(character) for character in text]
    frames = F.normalize(head.weight[classes], dim=1).numpy() + rng.normal(0, noise, (len(classes), FEATURE_DIM))
    frames = frames.astype(np.float16)
    posteriors = torch.softmax(torch.from_numpy(frames.astype(np.float32)) @ head.weight.T + head.bias, dim=1)
    top = posteriors.topk(TOP_CLASSES, dim=1)
    top_ids, top_posteriors = top.indices.numpy().astype(np.int32), top.values.numpy()
    ctc_ids, ctc_posteriors, ctc_frames = collapse(top_ids, top_posteriors)
    return EncodedLine(
        quad=((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)),
        direction="horizontal",
        frames=frames,
        ctc_ids=ctc_ids,
        ctc_posteriors=ctc_posteriors,
        ctc_frames=ctc_frames,
        top_ids=top_ids,
        top_posteriors=top_posteriors.astype(np.float16),
        frame_px=8.0,
    )
