"""A large model, guided by the compact one: the two that ``unlimited-ocr`` and ``vision-language`` name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from data_contracts.config import ReadingConfig
from models.compact.orientation import turn
from models.compact.reader import CompactModel
from models.sr_swa.geometry import Geometry
from models.sr_swa.pages import Decoding, EncodedPage, PageImage

if TYPE_CHECKING:
    from models.sr_swa.context import AttentionContext
    from models.sr_swa.memory.kv import KVBlock
    from models.sr_swa.pool import SlotPool
    from models.vlm.reader import VlmReader


def load_unlimited_ocr(reading: ReadingConfig) -> GuidedReader:
    """Return Unlimited-OCR with the configuration's weights; raises ModelUnavailable."""
    from models import unlimited_ocr

    compact = CompactModel(reading.compact)
    reader = unlimited_ocr.load_unlimited_ocr(reading.vlm, compact.hypothesis_text)
    return GuidedReader(compact, reader, keeps_lines=bool(reading.vlm.draft_tokens))


def load_vision_language(reading: ReadingConfig) -> GuidedReader:
    """Return whichever vision-language model lies in the configuration's folder; raises ModelUnavailable."""
    from models.vlm import general

    compact = CompactModel(reading.compact)
    return GuidedReader(compact, general.load_vision_language(reading.vlm, compact.hypothesis_text), keeps_lines=True)


class GuidedReader:
    """A large model that reads what the compact model have turned upright and found not to be blank.

    The large model itself neither turns a page nor gives evidence for a blank one. With ``keeps_lines`` it is also
    shown what the compact model read: a draft to verify, or where the lines stand.
    """

    def __init__(self, compact: CompactModel, reader: VlmReader, *, keeps_lines: bool) -> None:
        """Join two loaded models."""
        self._compact = compact
        self._reader = reader
        self._keeps_lines = keeps_lines

    @property
    def fingerprint(self) -> str:
        """Both models'."""
        return f"{self._reader.fingerprint}+{self._compact.fingerprint}"

    @property
    def geometry(self) -> Geometry:
        """The large model's."""
        return self._reader.geometry

    @property
    def pool(self) -> SlotPool | None:
        """The large model's page slots, if documents share them."""
        return self._reader.pool

    def encode_visual(self, image: PageImage) -> EncodedPage:
        """Return the features of the upright page, or why it is blank; also its lines if they are wanted."""
        seen = self._compact.encode_visual(image)
        if seen.blank_reason is not None:
            return seen
        upright = turn(image.pixels, seen.rotation) if seen.rotation else image.pixels
        features = self._reader.encode_visual(replace(image, pixels=upright)).features
        return replace(seen, features=features, lines=seen.lines if self._keeps_lines else ())

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Hold the page in the large model's window."""
        return self._reader.prefill(page, context)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Have the large model write the page."""
        return self._reader.decode(page, context)
