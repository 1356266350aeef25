"""A disk that is full: every write beyond a size fails, in this process, C libraries included."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.isolation import end_idle_processes


@contextmanager
def no_file_larger_than(size_bytes: int) -> Iterator[None]:
    """Let every write that would make a file larger than ``size_bytes`` fail until the block ends."""
    end_idle_processes()  # children inherit the bound when they start
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        end_idle_processes()
