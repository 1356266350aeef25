"""The decoder's weights: which file, which digest, and what it may be trusted with. See ``README.md`` beside it."""

from __future__ import annotations

from pathlib import Path

WEIGHTS_FILE = Path(__file__).parent / "decoder.safetensors"
WEIGHTS_SHA256 = ""
