"""The kinds of sources that are read: one line each. What none of them recognises is no document."""

from __future__ import annotations

from pathlib import Path

from data_contracts.errors import NotADocument
from tasks.sources.images import FolderSource, ImageSource
from tasks.sources.page_images import KINDS_IN_WORDS
from tasks.sources.pdf.source import PdfSource
from tasks.sources.protocol import SourceKind

SOURCES: dict[str, type[SourceKind]] = {one.name: one for one in (PdfSource, ImageSource, FolderSource)}


def source_at(path: Path) -> SourceKind:
    """Return what lies at ``path`` as a source of the kind that recognises it.

    Raises:
        NotADocument: none does.
    """
    if path.is_file() and not path.stat().st_size:
        raise NotADocument(f"{path.name} is empty (0 bytes); expected {KINDS_IN_WORDS}.")
    for kind in SOURCES.values():
        if kind.recognises(path):
            return kind(path)
    raise NotADocument(f"{path.name} is not {KINDS_IN_WORDS}, whatever its name says.")


def source_of(path: Path, kind: str) -> SourceKind:
    """Return ``path`` as a source of a kind that was told before.

    Raises:
        NotADocument: there is no such kind (any more).
    """
    if kind not in SOURCES:
        raise NotADocument(f"{path.name} is of the kind {kind!r}; read are {', '.join(SOURCES)}.")
    return SOURCES[kind](path)
