"""The configuration as a flow takes it: a form offers the formats and readers there are; no run begins with others."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, GetJsonSchemaHandler

from data_contracts.config import DigitizeConfig
from models.zoo import READERS, require_reader
from tasks.publishing.registry import FORMATS, formats_named


def _with_known_names(config: DigitizeConfig) -> DigitizeConfig:
    """Return ``config``.

    Raises:
        ConfigError: it names a format or a reader that there is not.
    """
    formats_named(config.formats)
    require_reader(config.reading.model)
    return config


class _OffersNames:
    """Has the schema of the configuration list what the two registries hold."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        shown = handler(schema)
        fields = handler.resolve_ref_schema(shown)["properties"]
        fields["formats"]["items"]["enum"] = list(FORMATS)
        handler.resolve_ref_schema(fields["reading"])["properties"]["model"]["enum"] = list(READERS)
        return shown


RunConfig: TypeAlias = Annotated[DigitizeConfig, AfterValidator(_with_known_names), _OffersNames()]
