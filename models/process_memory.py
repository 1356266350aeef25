"""How much memory this process, its container and its machine use; giving back what the process needs no more."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""``getrusage`` counts bytes on macOS and KiB elsewhere."""
CGROUP_FILES = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
"""Limit and usage of the container, version 2 and version 1."""
PROCESS_PAGES = Path("/proc/self/statm")


def process_peak_bytes() -> int:
    """Return the highest resident memory of this process since it started [bytes]; it never falls.

    Linux hands ``ru_maxrss`` down from the process that started this one, and reports its own beside.
    """
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT_BYTES


def give_back_free_memory() -> None:
    """Return freed blocks to the system where the allocator would keep them (glibc); takes milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def process_bytes() -> int:
    """Return the resident memory of this process [bytes]; without procfs its high-water mark."""
    if PROCESS_PAGES.exists():
        return int(PROCESS_PAGES.read_text().split()[1]) * resource.getpagesize()
    return process_peak_bytes()


def _machine_bytes() -> int:
    """Return the physical memory of the machine [bytes]."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def container_used_ratio() -> float:
    """Return the larger used share: of this process in the machine, of the container in its limit.

    The container's usage is taken without file pages that the kernel drops by itself (``inactive_file``).
    """
    machine_bytes = _machine_bytes()
    ratios = [process_bytes() / machine_bytes]
    for limit_file, usage_file in CGROUP_FILES:
        limit = limit_file.read_text().strip() if limit_file.exists() else "max"
        if limit.isdecimal() and int(limit) < machine_bytes:
            used_bytes = int(usage_file.read_text()) - _droppable_bytes(limit_file.with_name("memory.stat"))
            ratios.append(used_bytes / int(limit))
    return max(ratios)


def _droppable_bytes(stat_file: Path) -> int:
    """Return the file pages of a container that are not in use [bytes]."""
    figures = dict(line.split() for line in stat_file.read_text().splitlines())
    return int(figures.get("total_inactive_file", figures.get("inactive_file", 0)))
