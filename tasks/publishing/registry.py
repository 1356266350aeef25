"""The formats that a document is published in: one line each. A name that is not here is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_contracts.errors import ConfigError
from data_contracts.formats.jsonl import JsonlWriter, count_pages_of_jsonl
from data_contracts.formats.writer import PageWriter
from tasks.publishing.bounded_pdf import BoundedPdfWriter, count_pages_of_pdf
from tasks.publishing.plain_text import PlainTextWriter, count_pages_of_text
from tasks.publishing.publication import Publication


@dataclass(frozen=True)
class Format:
    """One file a document: its ``name`` in the configuration, what it is called, what writes it.

    ``writer`` gets the path to write at, what is published, and the selected pages (1-based, ascending).
    ``count_pages`` returns the pages of a written file, and raises ContractViolated where they cannot be told.
    """

    name: str
    file_name: str
    writer: Callable[[Path, Publication, Sequence[int]], PageWriter]
    count_pages: Callable[[Path], int]


_ALL = (
    Format("txt", "document.txt", lambda path, *_: PlainTextWriter(path), count_pages_of_text),
    Format("pdf", "document.pdf", BoundedPdfWriter, count_pages_of_pdf),
    Format("jsonl", "pages.jsonl", lambda path, *_: JsonlWriter(path), count_pages_of_jsonl),
)

FORMATS: dict[str, Format] = {one.name: one for one in _ALL}


def formats_named(names: Iterable[str]) -> list[Format]:
    """Return the formats of ``names``, each once, in order.

    Raises:
        ConfigError: lists the names that are unknown, and those that are known.
    """
    wanted = list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in FORMATS]:
        raise ConfigError(f"formats: there is no {', '.join(map(repr, unknown))}; there are {', '.join(FORMATS)}.")
    return [FORMATS[name] for name in wanted]
