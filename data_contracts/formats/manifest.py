"""``manifest.json``: what was published, of what, how it was read, and the digest of every file."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from data_contracts.records import parse_record
from data_contracts.source_condition import SourceCondition

MANIFEST = "manifest.json"
WORK_FOLDER = ".tomeflow"
"""Beside the documents' folders: checkpoints, states, the warehouse, the quarantine."""
MANIFEST_SCHEMA_VERSION: Literal[1] = 1


class _Part(BaseModel):
    """What readers of a manifest rely on; there is more in it."""

    model_config = ConfigDict(extra="ignore")


class _Document(_Part):
    document_id: str
    sha256: str
    page_count: int


class _File(_Part):
    sha256: str
    size_bytes: int


class _Run(_Part):
    source: str
    started_at: datetime
    parameters: dict[str, Any] | None = None


class _Manifest(_Part):
    schema_version: Literal[1]
    document: _Document
    selected_pages: list[int]
    unselected_page_count: int
    status_counts: dict[str, int]
    config: dict[str, Any]
    config_sha256: str
    model_fingerprint: str
    versions: dict[str, str]
    files: dict[str, _File]
    run: _Run
    source_condition: SourceCondition | None = None


def parse_manifest(data: bytes, place: str) -> dict[str, Any]:
    """Return the manifest as it stands in ``data``, read from ``place``.

    Raises:
        ContractViolated: it is cut off, no JSON, or lacks what every manifest has.
    """
    parse_record(_Manifest.model_validate_json, data, place)
    manifest: dict[str, Any] = json.loads(data)
    return manifest
