"""Lines whose picture and hypothesis disagree as the test says: real letters on a small head."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from models.compact.recognise.ctc_score import CtcHead
from models.compact.recognise.recognizer import collapse
from models.sr_swa.pages import EncodedLine

CHARACTERS = ("", *string.ascii_letters, *string.digits, *"-.,;'“”", *":(，：（", "王", "國", "一", "—", " ")
FRAMES_A_CHARACTER = 3
FEATURE_DIM = 120
CERTAIN = 12.0
"""Logit of a character that is printed clearly, above all others' 0."""
TOP_CLASSES = 8


def small_head() -> CtcHead:
    """Return a head that reads class c off feature c: what a frame holds is its logits."""
    return CtcHead(np.eye(len(CHARACTERS), FEATURE_DIM, dtype=np.float32), np.zeros(len(CHARACTERS), np.float32))


def hypothesis_line(
    text: str, doubts: Mapping[int, Mapping[str, float]] | None = None, top_px: float = 0.0
) -> EncodedLine:
    """Return the line ``text``, clearly printed but for ``doubts``: place in the text -> character -> logit there.

    The hypothesis takes the likeliest character everywhere, as the recogniser does.
    """
    frames = np.zeros((FRAMES_A_CHARACTER * len(text) + 2, FEATURE_DIM), np.float32)
    frames[:, 0] = CERTAIN
    for place, character in enumerate(text):
        frame = frames[1 + FRAMES_A_CHARACTER * place]
        frame[0] = 0
        for seen, logit in (doubts or {}).get(place, {character: CERTAIN}).items():
            frame[CHARACTERS.index(seen)] = logit
    line = _line(frames.astype(np.float16), top_px)
    return replace(line, frame_px=8.0)


def _line(frames: np.ndarray, top_px: float) -> EncodedLine:
    logits = frames[:, : len(CHARACTERS)].astype(np.float32)
    posteriors = np.exp(logits - logits.max(axis=1, keepdims=True))
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    ids = np.argsort(-posteriors, axis=1, kind="stable")[:, :TOP_CLASSES].astype(np.int32)
    top = np.take_along_axis(posteriors, ids, axis=1)
    ctc_ids, ctc_posteriors, ctc_frames = collapse(ids, top)
    width_px = 8.0 * len(frames)
    return EncodedLine(
        quad=((0.0, top_px), (width_px, top_px), (width_px, top_px + 40), (0.0, top_px + 40)),
        direction="horizontal",
        frames=frames,
        ctc_ids=ctc_ids,
        ctc_posteriors=ctc_posteriors,
        ctc_frames=ctc_frames,
        top_ids=ids,
        top_posteriors=top.astype(np.float16),
        frame_px=8.0,
    )
