"""What a published document says of itself: with which parameters it was made, and what its pages are."""

from __future__ import annotations

import json
from collections.abc import Iterable

from data_contracts.config import DigitizeConfig
from data_contracts.errors import ConfigError, ContractViolated
from data_contracts.result import PageResult
from flows.settings import Settings
from tasks import storage
from tasks.publish import FILE_NAMES, MANIFEST
from tasks.validate import quarantine_folder


def published_parameters(settings: Settings, document_id: str, config_sha256: str) -> tuple[str, DigitizeConfig]:
    """Return the folder of a document, on the shelf or in quarantine, and the configuration that made it.

    Raises:
        ConfigError: it was never published, or with another reading configuration, or by a version of tomeflow that
            did not write its parameters down.
    """
    shelf = storage.join(settings.output, document_id)
    for folder in (shelf, str(quarantine_folder(settings.work_folder, document_id))):
        try:
            manifest = json.loads(storage.read_bytes(storage.join(folder, MANIFEST)))
        except FileNotFoundError:
            continue
        if "parameters" not in manifest["run"]:
            raise ConfigError(f"{document_id} was published by an earlier version; run it again first: tomeflow run.")
        config = DigitizeConfig.model_validate(manifest["run"]["parameters"])
        if config.reading.sha256 != config_sha256:
            raise ConfigError(
                f"{document_id} is published with configuration {config.reading.sha256[:12]}, these pages were read "
                f"with {config_sha256[:12]}. Only what is published can be backfilled."
            )
        return folder, config
    raise ConfigError(f"{document_id} is not published in {settings.output}; run it first: tomeflow run.")


def check_nothing_else_changed(folder: str, pages: Iterable[PageResult]) -> None:
    """Compare ``pages.jsonl`` in ``folder``, if it is there, with ``pages``, as checkpoints and patches have them.

    Raises:
        ContractViolated: they differ, so that publishing anew would change more pages than it should.
    """
    filesystem, path = storage.filesystem_of(storage.join(folder, FILE_NAMES["jsonl"]))
    with storage.storage_errors(folder, "read"):
        if not filesystem.exists(path):
            return
        with filesystem.open(path, "rb") as lines:
            for page in pages:
                if lines.readline() != page.model_dump_json().encode() + b"\n":
                    raise ContractViolated(
                        f"page {page.page_number}: the checkpoints no longer hold what is published in {folder}. "
                        "Publish it anew first (tomeflow run), then backfill."
                    )
