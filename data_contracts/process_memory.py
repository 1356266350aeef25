"""How much memory this process has needed."""

from __future__ import annotations

import resource
import sys

RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""``getrusage`` counts bytes on macOS and KiB elsewhere."""


def process_peak_bytes() -> int:
    """Return the highest resident memory of this process since it started [bytes]; it never falls."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT_BYTES
