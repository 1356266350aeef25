"""Which bytes of a PDF are read: its own, or those of a copy that qpdf has mended and that shows more."""

from __future__ import annotations

import logging
from pathlib import Path

from data_contracts.errors import EncryptedDocument, UnreadableDocument
from data_contracts.source_condition import SourceCondition
from tasks import storage
from tasks.isolation import bounded_call
from tasks.sources import spool
from tasks.sources.pdf.damage import BOXLESS
from tasks.sources.pdf.examination import PdfExamination, examine_pdf, needs_a_password
from tasks.sources.pdf.repair import is_followed_by_another, repairer, says_it_is_encrypted, write_repaired

LOGGER = logging.getLogger("tomeflow.ingest")


def readable_pdf(path: Path, sha256: str, spool_folder: Path, seconds: float) -> tuple[Path, int, SourceCondition]:
    """Return the PDF to read, its number of pages and its condition: ``path``, or a repaired copy if that has more.

    Raises:
        UnreadableDocument: there is no page to read, or it needs a password.
        TooCostlyDocument: it takes too much time or memory.
    """
    found: PdfExamination = bounded_call(path, seconds, examine_pdf, path, path.name)
    if not found.is_damaged:
        return path, found.page_count, SourceCondition(**found.condition)
    copy = None
    if not isinstance(found.refusal, EncryptedDocument):
        copy = _repaired(path, sha256, spool_folder, found, seconds)
    again: PdfExamination = bounded_call(copy, seconds, examine_pdf, copy, path.name) if copy else found
    is_repaired = copy is not None and again.is_better_than(found)
    if found.refusal and not is_repaired:
        raise found.refusal
    damage = [_cause(found.refusal)] if found.refusal else list(found.damage())
    damage += ["it is several PDFs one after the other, the last is read"] if is_followed_by_another(path) else []
    if copy is None or not is_repaired:
        condition = SourceCondition(**found.condition, damage=tuple(damage), repaired_by=found.rebuilt_by)
        return path, found.page_count, condition
    about = {**again.condition, **found.condition, "damage": tuple(dict.fromkeys([*damage, *again.damage()]))}
    return copy, again.page_count, SourceCondition(**about, repaired_by=repairer())


def _repaired(path: Path, sha256: str, spool_folder: Path, found: PdfExamination, seconds: float) -> Path | None:
    """Return a repaired copy in the spool; None where qpdf cannot repair it either.

    Raises:
        EncryptedDocument: what keeps it from being opened is a password.
        StorageUnavailable: there is no room for the copy.
    """
    boxless = [number for number, fault in found.faults.items() if fault == BOXLESS]
    try:
        with storage.storage_errors(str(spool_folder), "put a repaired copy into"):
            return spool.derived(
                f"{sha256} {repairer()}",
                path.name,
                spool_folder,
                lambda copy: bounded_call(path, seconds, write_repaired, path, copy, boxless),
            )
    except PermissionError as error:
        raise needs_a_password(path.name) from error
    except ValueError as error:
        LOGGER.debug("%s", path.name, exc_info=True)
        if found.refusal and says_it_is_encrypted(path):
            raise needs_a_password(path.name) from error
        return None


def _cause(refusal: UnreadableDocument) -> str:
    """Return the first sentence of a refusal: what to do about it is done."""
    return refusal.message.partition(". ")[0]
