"""Which pages are read, and in what portions. Pure: no file, no clock."""

from __future__ import annotations

import re
from collections.abc import Sequence

from data_contracts.document import ChunkRef
from data_contracts.errors import ConfigError

_PART = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?")


def parse_pages(pages: str | None, page_count: int) -> tuple[int, ...]:
    """Return the selected page numbers, 1-based, ascending, each once; all of them if ``pages`` is None.

    A document is read from front to back, whatever the order of the parts; parts may overlap.

    Raises:
        ConfigError: parts are not pages, reversed, or outside 1 to ``page_count``; names all of them.
    """
    if pages is None:
        return tuple(range(1, page_count + 1))
    selected: set[int] = set()
    faults = []
    for part in pages.split(","):
        first, last, fault = _parse_part(part, page_count)
        if fault:
            faults.append(fault)
        else:
            selected.update(range(first, last + 1))
    if faults:
        raise ConfigError(f"pages {pages!r}: {'; '.join(faults)}. Write page numbers and ranges, such as 1-20,35.")
    return tuple(sorted(selected))


def _parse_part(part: str, page_count: int) -> tuple[int, int, str | None]:
    """Return first page, last page, and what is wrong with them, if anything."""
    match = _PART.fullmatch(part)
    if match is None:
        return 0, 0, f"{part.strip()!r} is neither a page nor a range"
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        return 0, 0, f"{part.strip()} is reversed, write {last}-{first}"
    if first < 1:
        return 0, 0, f"{part.strip()} begins before page 1"
    if last > page_count:
        return 0, 0, f"{part.strip()} ends after page {page_count}, the last one"
    return first, last, None


def spell_pages(numbers: Sequence[int]) -> str:
    """Return ascending page numbers as ``parse_pages`` reads them, such as 1-20,35."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def plan_chunks(selected: Sequence[int], chunk_pages: int) -> tuple[ChunkRef, ...]:
    """Return chunks of ``chunk_pages`` pages, the last maybe shorter: each selected page once, in order.

    Raises:
        ValueError: ``chunk_pages`` is below 1.
    """
    if chunk_pages < 1:
        raise ValueError(f"chunk_pages is {chunk_pages}; a chunk has at least one page")
    starts = range(0, len(selected), chunk_pages)
    return tuple(
        ChunkRef(chunk_number=number, page_numbers=tuple(selected[start : start + chunk_pages]))
        for number, start in enumerate(starts, start=1)
    )
