"""The README's table of everything a user may turn, rendered from the models so that it cannot go stale.

``python -m data_contracts.config_table data_contracts/README.md`` (part of ``make fix``) writes it; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from data_contracts.config import DigitizeConfig

BEGIN, END = "<!-- config: generated -->", "<!-- /config -->"
_BOUNDS = {"ge": "≥ {}", "gt": "> {}", "le": "≤ {}", "lt": "< {}"}


def config_table() -> str:
    """Return the table as Markdown, one row a field, nested sections as dotted names."""
    rows = [
        f"| `{name}` | {default} | {bounds} | {text} |" for name, default, bounds, text in _rows(DigitizeConfig, "")
    ]
    return "\n".join(["| parameter | default | range | meaning |", "|---|---|---|---|", *rows])


def with_table(readme: str) -> str:
    """Return ``readme`` with the table between its marks brought up to date."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{config_table()}\n{END}{rest.split(END)[1]}"


def _rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _default(field.default), _bounds(field), field.description or ""


def _default(value: Any) -> str:
    if value is None or value == "":
        return "empty"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _bounds(field: FieldInfo) -> str:
    found = [
        pattern.format(getattr(bound, name))
        for bound in field.metadata
        for name, pattern in _BOUNDS.items()
        if hasattr(bound, name)
    ]
    return ", ".join(found)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text()))
