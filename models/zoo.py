"""From the name of a model in the configuration to the model, loaded once per process."""

from __future__ import annotations

from functools import lru_cache

from data_contracts.config import ReadingConfig
from models.sr_swa.protocol import OcrModel


@lru_cache(maxsize=1)
def load_model(reading: ReadingConfig) -> OcrModel:
    """Return the model that ``reading`` names.

    Raises:
        ModelUnavailable: its weights are missing, damaged or of another version.
    """
    from models.compact.reader import CompactModel

    return CompactModel(reading.compact)
