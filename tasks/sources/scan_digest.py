"""Which pages show the very same picture: a digest of each page's image data as they lie in the source, undecoded.

A page that was scanned once and bound twice has equal data; one that was scanned twice has not, and is told by its
text. Pages without images have no digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tasks.sources.registry import source_of


def scan_digests(source: Path, kind: str, page_numbers: Sequence[int]) -> dict[int, str]:
    """Return page number -> digest of its image data, for those of ``page_numbers`` that have any."""
    return source_of(source, kind).scan_digests(page_numbers)
