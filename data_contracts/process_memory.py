"""How much memory this process has needed, giving back what it needs no more, and telling that it ran out."""

from __future__ import annotations

import ctypes
import errno
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


_SIGNS_OF_NO_MEMORY = (
    "memoryerror",
    "std::bad_alloc",
    "cannot allocate memory",
    "unable to allocate",
    "out of memory",
    "memory allocation of",
    "failed to allocate",
    "bad allocation",
    "allocation failure",
    "malloc (",
    "malloc of",
    "realloc (",
    "calloc (",
    "can't start new thread",
    "failed to create thread",
    "failed to map segment",
)
"""What the interpreter, the C library, MuPDF, NumPy, DuckDB and the loader say when memory or a thread is refused."""


def memory_bound() -> str:
    """Return a sentence about the bound that the user has set on the memory of each process; empty if there is none."""
    bound = resource.getrlimit(resource.RLIMIT_AS)[0]
    return "" if bound == resource.RLIM_INFINITY else f"Each process may have {bound / 1e9:.1f} GB here (ulimit -v). "


def is_out_of_memory(error: object) -> bool:
    """Return whether an error, or what a process said last, tells of memory that ran out."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    said = f"{type(error).__name__}: {error}".lower()
    return any(sign in said for sign in _SIGNS_OF_NO_MEMORY)
