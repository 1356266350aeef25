"""The decoder's weights, one file a language, and their digests. ``README.md`` beside them is the model card."""

from __future__ import annotations

from pathlib import Path

from models.compact.decode.decoder import FrozenHead, load_weights
from models.compact.decode.half_linear import packed
from models.compact.decode.verify import Verifier

FOLDER = Path(__file__).parent
WEIGHTS_SHA256 = {
    "de": "8fbb6b08b9dac7b85f76b7b394856f14cd631e1727657ee23a865803b564ab1a",
    "en": "d39e9c5b4ca072a11857c86db85c14fc4ed1e812a753655d340498b8ba2a2831",
    "fr": "337374c2b8177bc51cf11f52143cfc91b8aa89a969ea848e282411cc284ef693",
}
"""By language: those in which the decoder makes fewer errors than the hypothesis on generated pages."""


def weights_file(language: str) -> Path:
    """Return where the weights of ``language`` lie."""
    return FOLDER / f"decoder_{language}.safetensors"


def load_verifiers(characters: tuple[str, ...], folder: Path | None = None) -> dict[str, Verifier]:
    """Return a verifier for each language; ``folder`` holds the recogniser's weights, whose head they write through.

    Raises:
        ModelUnavailable: weights are missing or not the expected ones.
    """
    head = FrozenHead.load(folder)
    return {
        language: Verifier(packed(load_weights(weights_file(language), sha256, head)), characters)
        for language, sha256 in WEIGHTS_SHA256.items()
    }
