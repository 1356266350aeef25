"""How much memory this process has needed, giving back what it needs no more, and telling that it ran out."""

from __future__ import annotations

import ctypes
import resource
import sys
from contextlib import suppress
from pathlib import Path

RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""``getrusage`` counts bytes on macOS and KiB elsewhere."""


def process_peak_bytes() -> int:
    """Return the highest resident memory of this process since it started [bytes]; it never falls.

    Linux hands ``ru_maxrss`` down from the process that started this one, and tells its own beside.
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
