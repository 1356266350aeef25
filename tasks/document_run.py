"""What every step after reading needs to know of a document's run, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from data_contracts.config import DigitizeConfig
from data_contracts.document import DocumentRef
from data_contracts.records import FrozenRecord
from data_contracts.warehouse.connection import WAREHOUSE_FILE


class RunRecord(FrozenRecord):
    """One run over one document: what it used and what it cost on this machine."""

    run_id: str
    model_fingerprint: str
    started_at: datetime
    seconds: float
    selected_pages: int
    peak_memory_bytes: int


@dataclass(frozen=True)
class DocumentRun:
    """A document whose pages have been read: what was read, how, from where, and where the outputs go.

    ``source`` is the local path of the document, ``selected`` the numbers of its pages (1-based, ascending), ``output``
    the folder or URI of published documents, ``work`` the local folder of the warehouse, the verdicts and the
    quarantine.
    """

    document: DocumentRef
    source: Path
    config: DigitizeConfig
    selected: tuple[int, ...]
    output: str
    work: Path
    record: RunRecord

    @property
    def warehouse(self) -> Path:
        """The warehouse's file."""
        return self.work / WAREHOUSE_FILE
