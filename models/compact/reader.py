"""DRAFT so that the flow can be tried end to end; its owner replaces it."""

from __future__ import annotations

import torch

from data_contracts.config import CompactConfig
from data_contracts.geometry import Box
from data_contracts.result import BlankReason, Line, Word
from models.compact.detector import LineDetector
from models.compact.recognizer import LineRecognizer
from models.layout import line_directions, reading_order
from models.sr_swa.context import AttentionContext
from models.sr_swa.kv import KVBlock
from models.sr_swa.protocol import Decoding, EncodedPage, Geometry, PageImage


class CompactModel:
    fingerprint = "draft"
    geometry = Geometry(layers=1, kv_heads=1, head_dim=360, page_tokens=512, rope_theta=None)

    def __init__(self, config: CompactConfig) -> None:
        self._detector = LineDetector(config.detector_side_px, 1)
        self._recognizer = LineRecognizer(config.threads)

    def encode_visual(self, image: PageImage) -> EncodedPage:
        height, width = image.pixels.shape[:2]
        quads = self._detector.detect(image.pixels)
        directions = line_directions(quads, width, height)
        order = reading_order(quads, directions, width, height)
        lines = self._recognizer.read(image.pixels, [quads[i] for i in order], [directions[i] for i in order])
        lines = [line for line in lines if len(line.draft_ids)]
        return EncodedPage(image.page_number, width, height, image.dpi, lines=tuple(lines),
                           blank_reason=None if lines else BlankReason.EMPTY)

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        tokens = min(len(page.lines), 512)
        keys = torch.zeros(1, 1, tokens, 360)
        return KVBlock(page.page_number, keys, keys.clone(), torch.arange(tokens))

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        lines = []
        for line in page.lines:
            text = self._recognizer.text(line.draft_ids).strip()
            confidence = float(line.draft_posteriors.mean())
            box = Box.around(line.quad)
            words = tuple(Word(text=word, box=box, confidence=confidence) for word in text.split())
            if words:
                lines.append(Line(text=" ".join(text.split()), box=box, quad=line.quad, confidence=confidence, words=words))
        return Decoding(tuple(lines), blank_reason=None if lines else BlankReason.EMPTY)
