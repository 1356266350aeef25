"""The configuration as a flow takes it: a form offers the formats that there are, and no run begins with another."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from data_contracts.config import DigitizeConfig
from tasks.publishing.registry import FORMATS, formats_named


def _with_known_formats(config: DigitizeConfig) -> DigitizeConfig:
    """Return ``config``.

    Raises:
        ConfigError: it names a format that there is not.
    """
    formats_named(config.formats)
    return config


class _OffersFormats:
    """Has the schema of the configuration list the formats of the registry."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        shown = handler(schema)
        handler.resolve_ref_schema(shown)["properties"]["formats"]["items"]["enum"] = list(FORMATS)
        return shown


RunConfig: TypeAlias = Annotated[DigitizeConfig, AfterValidator(_with_known_formats), _OffersFormats()]
