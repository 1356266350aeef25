"""The one definition of a checkpoint key: equal keys mean equal results, whoever computed them."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef, StateRef

SCHEMA_VERSION = 1


def encode_key(document: DocumentRef, chunk: ChunkRef, config_sha256: str, model_fingerprint: str) -> str:
    """Return the key of a chunk's features: they depend on the pages and on what encodes them."""
    return _key("encode", document, chunk, config_sha256, model_fingerprint)


def decode_key(
    document: DocumentRef,
    chunk: ChunkRef,
    features: tuple[FeaturesRef, ...],
    config_sha256: str,
    model_fingerprint: str,
    previous: StateRef | None,
) -> str:
    """Return the key of a chunk's reading: its features, the lookahead's, and the state it starts from."""
    return _key(
        "decode",
        document,
        chunk,
        config_sha256,
        model_fingerprint,
        *(ref.sha256 for ref in features),
        previous.sha256 if previous else "start",
    )


def _key(kind: Literal["encode", "decode"], document: DocumentRef, chunk: ChunkRef, *parts: str) -> str:
    content = [SCHEMA_VERSION, kind, document.sha256, list(chunk.page_numbers), *parts]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return f"{document.document_id}/{kind}-{chunk.page_numbers[0]:06d}-{digest[:24]}"
