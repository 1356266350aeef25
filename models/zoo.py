"""From the name of a model in the configuration to the model, loaded once per process. One line a model.

A loader is imported when its model is asked for: to know the names costs no weights and no torch.
"""

from __future__ import annotations

from functools import lru_cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from data_contracts.config import ReadingConfig
from data_contracts.errors import ConfigError

if TYPE_CHECKING:
    from models.sr_swa.protocol import OcrModel

READERS: dict[str, str] = {
    "compact": "models.compact.reader:load_compact",
    "unlimited-ocr": "models.guided_reader:load_unlimited_ocr",
    "vision-language": "models.guided_reader:load_vision_language",
}
"""Name in the configuration -> module:function, which takes a ``ReadingConfig`` and returns an ``OcrModel``."""


def require_reader(name: str) -> None:
    """Refuse a name that no model has.

    Raises:
        ConfigError: lists the names that there are.
    """
    if name not in READERS:
        raise ConfigError(f"reading.model: there is no {name!r}; there are {', '.join(READERS)}.")


@lru_cache(maxsize=1)
def load_model(reading: ReadingConfig) -> OcrModel:
    """Return the model that ``reading`` names.

    Raises:
        ConfigError: there is no such model.
        ModelUnavailable: its weights are missing, damaged or of another version, or this machine cannot run it.
    """
    require_reader(reading.model)
    model: OcrModel = resolve_name(READERS[reading.model])(reading)
    return model
