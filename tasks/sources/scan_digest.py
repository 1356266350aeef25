"""Which pages show the very same picture: a digest of each page's image data as they lie in the source, undecoded.

A page that was scanned once and bound twice has equal data; one that was scanned twice has not, and is told by its
text. Pages without images have no digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tasks.sources.page_images import frames_of
from tasks.sources.pdf.mupdf import mupdf


def scan_digests(source: Path, kind: Literal["pdf", "image", "folder"], page_numbers: Sequence[int]) -> dict[int, str]:
    """Return page number -> digest of its image data, for those of ``page_numbers`` that have any."""
    if kind != "pdf":
        frames = frames_of(source)
        files = {frame.path: hashlib.sha256(frame.path.read_bytes()).hexdigest() for frame in frames}
        return {number: f"{files[frames[number - 1].path]} {frames[number - 1].index}" for number in page_numbers}
    with mupdf() as pymupdf, pymupdf.open(source, filetype="pdf") as document:
        known: dict[int, str] = {}
        digests = {number: _page_digest(document, number - 1, known) for number in page_numbers}
    return {number: digest for number, digest in digests.items() if digest}


def _page_digest(document: Any, page_index: int, known: dict[int, str]) -> str:
    """Return the digests of a page's images, joined; empty for a page without any, and for a damaged one."""
    try:
        objects = [image[0] for image in document.get_page_images(page_index)]
        for number in objects:
            if number not in known:
                known[number] = hashlib.sha256(document.xref_stream_raw(number)).hexdigest()
    except Exception:  # MuPDF's errors share no class; a damaged page is told by its reading
        return ""
    return " ".join(known[number] for number in objects)
