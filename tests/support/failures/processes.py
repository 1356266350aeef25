"""Processes that are to die: whose they are, and waiting for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Return the processes that process ``pid`` has started and that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            parent = stat.read_text().rpartition(")")[2].split()[1]
            found += [int(stat.parent.name)] if int(parent) == pid else []
    return found


def until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until ``condition`` holds; return whether it did in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
