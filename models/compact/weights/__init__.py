"""The decoder's weights: which file, and its digest. ``README.md`` beside it is the model card."""

from __future__ import annotations

from pathlib import Path

WEIGHTS_FILE = Path(__file__).parent / "decoder.safetensors"
WEIGHTS_SHA256: str | None = None
"""None: no weights have been found good enough to be part of the package, and drafts stand as they are."""
