"""One run at a time per document: a kernel lock, so it dies with its holder, however the holder dies."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks import storage

logger = logging.getLogger("tomeflow.digitize")


@contextmanager
def one_run_at_a_time(lock_folder: Path, document_id: str) -> Iterator[None]:
    """Hold the document's lock; a second run waits and says so, then finds everything done.

    Raises:
        StorageUnavailable: the lock cannot be made.
    """
    with storage.open_local(lock_folder / f"{document_id}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning("%s is being digitized by another run; waiting for it", document_id)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
