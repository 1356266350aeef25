"""When the warehouse is exported: once a run, at its end, however many documents it was about.

An export writes all tables. A run that was killed left a mark; whoever starts next in the same work folder makes its
export good.
"""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from uuid import uuid4

from data_contracts.errors import TomeflowError
from data_contracts.warehouse.connection import EXPORT_FOLDER, WAREHOUSE_FILE, export_warehouse
from tasks import storage

logger = logging.getLogger("tomeflow.digitize")

DUE_FOLDER = "exports_due"
"""Marks of runs that have yet to export, each locked by its run as long as it lives."""

_IN_RUN: ContextVar[Path | None] = ContextVar("work folder that an outer run will export", default=None)


@contextmanager
def exported_at_the_end(work: Path) -> Iterator[None]:
    """Export the warehouse below ``work`` when the block ends, also in an error; inside such a block, do nothing.

    Raises:
        StorageUnavailable: the warehouse cannot be exported. After an error in the block, that is only logged.
    """
    if _IN_RUN.get() == work:
        yield
        return
    _make_good(work)
    mark = work / DUE_FOLDER / uuid4().hex
    with storage.open_local(mark, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        token = _IN_RUN.set(work)
        try:
            yield
        except Exception:
            _export_after_an_error(work, mark)
            raise
        finally:
            _IN_RUN.reset(token)
        _export(work, mark)


def _export(work: Path, *marks: Path) -> None:
    """Export the warehouse, if there is one, and remove the ``marks`` that it was due to."""
    if (work / WAREHOUSE_FILE).exists():
        export_warehouse(work / WAREHOUSE_FILE, work / EXPORT_FOLDER)
    for mark in marks:
        mark.unlink(missing_ok=True)


def _export_after_an_error(work: Path, mark: Path) -> None:
    try:
        _export(work, mark)
    except TomeflowError as error:
        logger.warning("the next run exports the warehouse: %s", error)


def _make_good(work: Path) -> None:
    """Export what killed runs have left; a mark that somebody holds is that of a living run."""
    if left := [mark for mark in (work / DUE_FOLDER).glob("*") if not _is_held(mark)]:
        _export(work, *left)


def _is_held(mark: Path) -> bool:
    try:
        with mark.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True  # its run has ended meanwhile
    except BlockingIOError:
        return True
    return False
