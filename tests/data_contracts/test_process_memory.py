"""Memory that was freed leaves the process; what it needed at most stays known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from data_contracts.process_memory import give_back_free_memory, process_peak_bytes

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
