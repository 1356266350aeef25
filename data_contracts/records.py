"""Records that were written as JSON, read back: what is damaged or of another version is one error, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from data_contracts.errors import ContractViolated

RUN_AGAIN = "Run the document again: finished chunks are kept."
Record = TypeVar("Record")


def parse_record(parse: Callable[[Any], Record], data: object, place: str) -> Record:
    """Return what ``parse``, a model's own validation, makes of the ``data`` found at ``place``.

    Raises:
        ContractViolated: it is no such record; the message names the place and the first fault.
    """
    try:
        return parse(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the whole"
        raise ContractViolated(
            f"{place} is damaged, or written by another version: {field}: {first['msg']} "
            f"({error.error_count()} faults). {RUN_AGAIN}"
        ) from error
