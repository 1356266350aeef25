"""``document.txt``: the reading as plain text, one form feed between pages.

A document of n selected pages always has n - 1 form feeds, also where pages are blank or failed, so the
n-th part of the file is the n-th selected page. Every line ends with a newline; UTF-8, NFC.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

from data_contracts.formats.writer import PageWriter
from data_contracts.result import PageResult

PAGE_SEPARATOR = "\f"

_UNWRITABLE_CATEGORIES = frozenset({"Cc", "Cs"})
"""Control characters would break lines or pages apart; lone surrogates have no UTF-8."""

_BECOME_A_SPACE = frozenset("\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def plain_line(text: str) -> str:
    """Return ``text`` as it stands in every published text: NFC, one line, nothing unprintable."""
    if text.isprintable():
        return unicodedata.normalize("NFC", text)
    one_line = "".join(" " if character in _BECOME_A_SPACE else character for character in text)
    kept = (character for character in one_line if unicodedata.category(character) not in _UNWRITABLE_CATEGORIES)
    return unicodedata.normalize("NFC", "".join(kept))


def page_text(page: PageResult) -> str:
    """Return the lines of one page, each ended by a newline; empty for a page without text."""
    return "".join(f"{plain_line(line.text)}\n" for line in page.lines)


class PlainTextWriter(PageWriter):
    """Writes ``document.txt`` page by page; holds neither a page nor an open file."""

    def __init__(self, path: Path) -> None:
        """Begin an empty file at ``path``."""
        self._path = path
        self._pages = 0
        path.write_bytes(b"")

    def add(self, page: PageResult) -> None:
        """Append one page."""
        separator = PAGE_SEPARATOR if self._pages else ""
        with self._path.open("ab") as file:
            file.write((separator + page_text(page)).encode())
        self._pages += 1


def count_pages_of_text(path: Path) -> int:
    """Return how many pages ``path`` holds."""
    with path.open(encoding="utf-8", newline="\n") as file:
        return 1 + sum(line.count(PAGE_SEPARATOR) for line in file)
