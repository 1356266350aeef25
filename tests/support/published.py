"""The folder of a published document, with the files that eval and status read and no others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from data_contracts.config import ReadingConfig
from data_contracts.result import PageResult
from tasks.storage import sha256_file


def shelve(folder: Path, pages: Sequence[PageResult], page_count: int | None = None) -> Path:
    """Write ``pages.jsonl`` and ``manifest.json`` into ``folder`` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pages.jsonl"
    file.write_text("".join(f"{page.model_dump_json()}\n" for page in pages), encoding="utf-8")
    count = page_count or len(pages)
    manifest = {
        "schema_version": 1,
        "document": {"document_id": folder.name, "sha256": "0" * 64, "page_count": count},
        "selected_pages": [page.page_number for page in pages],
        "unselected_page_count": count - len(pages),
        "status_counts": {},
        "config": ReadingConfig().model_dump(mode="json"),
        "config_sha256": ReadingConfig().sha256,
        "model_fingerprint": "fake",
        "versions": {"tomeflow": "0"},
        "files": {file.name: {"sha256": sha256_file(str(file)), "size_bytes": file.stat().st_size}},
        "run": {"source": f"{folder.name}.pdf", "started_at": "2026-01-01T00:00:00Z"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
