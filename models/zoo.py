"""From the name of a model in the configuration to the model, loaded once per process."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from data_contracts.config import ReadingConfig
from models.sr_swa.protocol import Decoding, EncodedPage, Geometry, OcrModel, PageImage

if TYPE_CHECKING:
    from models.compact.reader import CompactModel
    from models.sr_swa.context import AttentionContext
    from models.sr_swa.kv import KVBlock
    from models.sr_swa.pool import SlotPool
    from models.vlm.reader import VlmReader


@lru_cache(maxsize=1)
def load_model(reading: ReadingConfig) -> OcrModel:
    """Return the model that ``reading`` names.

    Raises:
        ModelUnavailable: its weights are missing, damaged or of another version, or this machine cannot run it.
    """
    from models.compact.reader import CompactModel

    compact = CompactModel(reading.compact)
    if reading.model == "compact":
        return compact
    from models.unlimited_ocr import load_unlimited_ocr

    return GuidedReader(compact, load_unlimited_ocr(reading.vlm, compact.draft_text), bool(reading.vlm.draft_tokens))


class GuidedReader:
    """A large model that reads what the compact model's eyes have turned upright and found not to be blank.

    The large model itself neither turns a page nor gives evidence for a blank one. With ``drafts`` the eyes' reading
    is also the draft that it verifies.
    """

    def __init__(self, eyes: CompactModel, reader: VlmReader, drafts: bool) -> None:
        """Join two loaded models."""
        self._eyes = eyes
        self._reader = reader
        self._drafts = drafts

    @property
    def fingerprint(self) -> str:
        """Both models'."""
        return f"{self._reader.fingerprint}+{self._eyes.fingerprint}"

    @property
    def geometry(self) -> Geometry:
        """The large model's."""
        return self._reader.geometry

    @property
    def pool(self) -> SlotPool | None:
        """The large model's page slots, if documents share them."""
        return self._reader.pool

    def encode_visual(self, image: PageImage) -> EncodedPage:
        """Return the features of the upright page, or why it is blank; with drafts also its lines."""
        from models.compact.orientation import turn

        seen = self._eyes.encode_visual(image)
        if seen.blank_reason is not None:
            return seen
        upright = turn(image.pixels, seen.rotation) if seen.rotation else image.pixels
        features = self._reader.encode_visual(replace(image, pixels=upright)).features
        return replace(seen, features=features, lines=seen.lines if self._drafts else ())

    def prefill(self, page: EncodedPage, context: AttentionContext) -> KVBlock:
        """Hold the page in the large model's window."""
        return self._reader.prefill(page, context)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        """Have the large model write the page."""
        return self._reader.decode(page, context)
