"""Memory that was freed leaves the process; what it needed at most stays known."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from data_contracts.out_of_memory import is_out_of_memory
from models.process_memory import give_back_free_memory, process_peak_bytes

BLOCKS, BLOCK_BYTES = 3000, 50_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="not applicable: glibc is what keeps freed memory")
def test_freed_blocks_between_used_ones_are_given_back() -> None:
    blocks = [bytearray(BLOCK_BYTES) for _ in range(BLOCKS)]
    kept = blocks[::100]
    full = resident_bytes()
    del blocks
    give_back_free_memory()
    assert resident_bytes() < full - 0.8 * BLOCKS * BLOCK_BYTES
    assert process_peak_bytes() > 0.99 * full, "the kernel counts in batches"
    assert len(kept) == BLOCKS // 100


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        RuntimeError("std::bad_alloc"),
        ImportError("libarrow.so: failed to map segment from shared object"),
        "memory allocation of 176 bytes failed",
        "Out of Memory Error: Failed to allocate block of 34359738368 bytes (bad allocation)",
        "code=2: malloc (10000000000 bytes) failed",
        "Unable to allocate 3.9 GiB for an array",
    ],
)
def test_memory_that_ran_out_is_told_by_whatever_met_it(error: object) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize("error", [ValueError("torn"), OSError(errno.ENOSPC, "No space left"), BlockingIOError(11, "")])
def test_other_faults_are_not_taken_for_it(error: object) -> None:
    assert not is_out_of_memory(error)


@pytest.mark.skipif(sys.platform != "linux", reason="not applicable: Linux alone tells a process's own peak")
def test_the_peak_of_a_child_is_its_own() -> None:
    held = b"x" * 300_000_000
    code = "from models.process_memory import process_peak_bytes; print(process_peak_bytes())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(told) < len(held)
