"""What all records share; read back from JSON, what is damaged or of another version is one error, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from data_contracts.errors import ContractViolated

RUN_AGAIN = "Run the document again: finished chunks are kept."
Record = TypeVar("Record")


class FrozenRecord(BaseModel):
    """A record that never changes and takes no field that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def parse_record(parse: Callable[[Any], Record], data: object, uri: str) -> Record:
    """Return what ``parse``, a model's own validation, makes of the ``data`` found at ``uri``.

    Raises:
        ContractViolated: it is no such record; the message names the URI and the first fault.
    """
    try:
        return parse(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the whole"
        raise ContractViolated(
            f"{uri} is damaged, or written by another version: {field}: {first['msg']} "
            f"({error.error_count()} faults). {RUN_AGAIN}"
        ) from error
