"""What is published, in whichever formats: a document, where it is read from, and its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_contracts.document import DocumentRef
from data_contracts.result import PageResult
from tasks.isolation import BOUND_SECONDS


@dataclass(frozen=True)
class Publication:
    """One reading of ``document``, whose pages lie at ``source``.

    ``pages`` yields the selected pages in order, anew at each call. ``seconds`` is the processor time that a page of
    the source may take. ``selected`` are the numbers of the pages; without them, all pages are asked for once more.
    """

    document: DocumentRef
    source: Path
    pages: Callable[[], Iterable[PageResult]]
    seconds: float = BOUND_SECONDS
    selected: Sequence[int] | None = None
