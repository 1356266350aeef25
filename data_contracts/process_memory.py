"""How much memory this process has needed, and giving back what it needs no more."""

from __future__ import annotations

import ctypes
import resource
import sys

RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""``getrusage`` counts bytes on macOS and KiB elsewhere."""


def process_peak_bytes() -> int:
    """Return the highest resident memory of this process since it started [bytes]; it never falls."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT_BYTES


def give_back_free_memory() -> None:
    """Return freed blocks to the system where the allocator would keep them (glibc); takes milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
