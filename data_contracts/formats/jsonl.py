"""``pages.jsonl``: one ``PageResult`` a line, in the order of the pages. The complete reading, for programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from data_contracts.errors import ContractViolated
from data_contracts.formats.writer import PageWriter
from data_contracts.records import RUN_AGAIN, parse_record
from data_contracts.result import PageResult


class JsonlWriter(PageWriter):
    """Writes ``pages.jsonl`` page by page; holds neither a page nor an open file."""

    def __init__(self, path: Path) -> None:
        """Begin an empty file at ``path``."""
        self._path = path
        path.write_bytes(b"")

    def add(self, page: PageResult) -> None:
        """Append one page."""
        with self._path.open("ab") as file:
            file.write(page.model_dump_json().encode() + b"\n")


def read_pages(path: Path) -> Iterator[PageResult]:
    """Yield the pages of ``path`` one by one, validated.

    Raises:
        ContractViolated: a line is not a page, or the file was cut off; the message names the line.
    """
    with path.open("rb") as file:
        for line_number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                raise ContractViolated(f"{path.name} is cut off in line {line_number}. {RUN_AGAIN}")
            yield parse_record(PageResult.model_validate_json, line, f"{path.name} line {line_number}")


def count_pages_of_jsonl(path: Path) -> int:
    """Return how many pages ``path`` holds; raises as ``read_pages``."""
    return sum(1 for _ in read_pages(path))
