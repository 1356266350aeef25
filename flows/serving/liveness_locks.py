"""Which flow runs of this machine are alive: a file each, under a kernel lock that dies with the run's process.

A file that is left without its lock belongs to a run that died without a word: killed, or gone with its machine.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked_while_running(folder: Path, flow_run_id: str) -> Iterator[None]:
    """Lock a file of the run for the block; it stays behind only if the process dies in it."""
    folder.mkdir(parents=True, exist_ok=True)
    path, unlocked = folder / flow_run_id, folder / f".{flow_run_id}"
    with unlocked.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        unlocked.replace(path)  # nobody sees the file of a living run without its lock
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def interrupted_runs(folder: Path | None) -> list[Path]:
    """Return the lock files that nobody holds; each is named by its flow run's id."""
    return [path for path in sorted(folder.glob("[!.]*")) if not _is_held(path)] if folder else []


def _is_held(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):  # it has just ended in order, or it lives
        return True
    return not path.exists()  # it ended in order between opening and locking
