"""Telling that memory ran out, from whatever said so."""

from __future__ import annotations

import errno
import resource

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
    """Return whether an error, or what a process said last, reports memory that ran out."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    said = f"{type(error).__name__}: {error}".lower()
    return any(sign in said for sign in _SIGNS_OF_NO_MEMORY)
