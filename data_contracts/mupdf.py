"""The only door to MuPDF: imported when first needed, silent, and one caller at a time.

PyMuPDF must not be entered by two threads at once, and it prints MuPDF's messages to standard output,
where ``--json`` promises nothing but its object.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

POINTS_PER_INCH = 72

_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def mupdf() -> Iterator[Any]:
    """Yield the module ``pymupdf``, alone in it until the block ends."""
    with _ONE_AT_A_TIME:
        import pymupdf

        pymupdf.TOOLS.mupdf_display_errors(False)
        pymupdf.TOOLS.mupdf_display_warnings(False)
        try:
            yield pymupdf
        finally:
            pymupdf.TOOLS.reset_mupdf_warnings()
