"""The decoder's weights, one file a language, and their digests. ``README.md`` beside them is the model card."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from models.compact.decoder import FrozenHead, load_weights
from models.compact.verify import DraftVerifier, VerifierCaution

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Weights:
    """One language's weights: the file's ``sha256``, and when a page in that language is decoded and changed."""

    sha256: str
    caution: VerifierCaution = field(default_factory=VerifierCaution)


WEIGHTS = {
    "en": Weights("d39e9c5b4ca072a11857c86db85c14fc4ed1e812a753655d340498b8ba2a2831"),
}
"""By language: those in which the decoder makes fewer errors than the draft on generated pages."""


def weights_file(language: str) -> Path:
    """Return where the weights of ``language`` lie."""
    return FOLDER / f"decoder_{language}.safetensors"


def load_verifiers(characters: tuple[str, ...], folder: Path | None = None) -> dict[str, DraftVerifier]:
    """Return a verifier for each language; ``folder`` holds the recogniser's weights, whose head they write through.

    Raises:
        ModelUnavailable: weights are missing or not the expected ones.
    """
    head = FrozenHead.load(folder)
    return {
        language: DraftVerifier(load_weights(weights_file(language), weights.sha256, head), characters, weights.caution)
        for language, weights in WEIGHTS.items()
    }
