"""The decoder's weights: which file, and its digest. ``README.md`` beside it is the model card."""

from __future__ import annotations

from pathlib import Path

from models.compact.decoder import FrozenHead, load_weights
from models.compact.verify import DraftVerifier

WEIGHTS_FILE = Path(__file__).parent / "decoder.safetensors"
WEIGHTS_SHA256 = "d39e9c5b4ca072a11857c86db85c14fc4ed1e812a753655d340498b8ba2a2831"

LANGUAGES = ("en",)
"""Languages, by their word lists, in which it makes fewer errors than the draft on generated pages; in French and
German it makes more."""


def load_verifier(characters: tuple[str, ...], folder: Path | None = None) -> DraftVerifier:
    """Return a verifier with these weights; ``folder`` holds the recogniser's, whose head the decoder writes through.

    Raises:
        ModelUnavailable: weights are missing or not the expected ones.
    """
    return DraftVerifier(load_weights(WEIGHTS_FILE, WEIGHTS_SHA256, FrozenHead.load(folder)), characters)
