"""The only door to MuPDF: imported when first needed, silent, and one caller at a time.

PyMuPDF must not be entered by two threads at once, and it prints MuPDF's messages to standard output,
where ``--json`` promises nothing but its object.
"""

from __future__ import annotations

import sys
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
        pymupdf = sys.modules.get("pymupdf") or _import_without_layout_models()
        pymupdf.TOOLS.mupdf_display_errors(False)
        pymupdf.TOOLS.mupdf_display_warnings(False)
        try:
            yield pymupdf
        finally:
            pymupdf.TOOLS.reset_mupdf_warnings()


def _import_without_layout_models() -> Any:
    """Import PyMuPDF 2, which would load three neural networks for tables and layout if it found them.

    They are not used here and cost 0.4 s of processor time and 56 MB in every process.
    """
    sys.modules.setdefault("pymupdf.layout", None)  # type: ignore[arg-type]
    try:
        import pymupdf
    finally:
        if sys.modules.get("pymupdf.layout") is None:
            del sys.modules["pymupdf.layout"]
    return pymupdf
