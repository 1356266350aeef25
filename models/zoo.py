"""From the name of a model in the configuration to the model, loaded once per process."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from data_contracts.config import ReadingConfig
from models.sr_swa.geometry import Geometry
from models.sr_swa.pages import Decoding, EncodedPage, PageImage
from models.sr_swa.protocol import OcrModel

if TYPE_CHECKING:
    from models.compact.reader import CompactModel
    from models.sr_swa.context import AttentionContext
    from models.sr_swa.memory.kv import KVBlock
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
    if reading.model == "unlimited-ocr":
        from models.unlimited_ocr import load_unlimited_ocr

        reader = load_unlimited_ocr(reading.vlm, compact.draft_text)
        return GuidedReader(compact, reader, keeps_lines=bool(reading.vlm.draft_tokens))
    from models.vlm.general import load_vision_language

    return GuidedReader(compact, load_vision_language(reading.vlm, compact.draft_text), keeps_lines=True)


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
        from models.compact.orientation import turn

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
