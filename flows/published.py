"""What a published document says of itself: its manifest, its pages as they were published, how it was made.

Whatever reads what is published, or quarantined, comes through here: files that are not the published ones are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from data_contracts.config import DigitizeConfig
from data_contracts.errors import ConfigError, ContractViolated
from data_contracts.formats.jsonl import read_pages
from data_contracts.records import RUN_AGAIN, parse_record
from data_contracts.result import PageResult
from flows.settings import Settings
from tasks import storage
from tasks.publishing.publish import published_digests, read_manifest
from tasks.publishing.registry import FORMATS
from tasks.validate import quarantine_folder


def published_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of the document in ``folder``, published or in quarantine.

    Raises:
        ConfigError: there is no document.
        ContractViolated: the manifest is damaged.
    """
    try:
        return read_manifest(str(folder))
    except FileNotFoundError:
        raise ConfigError(f"{folder} holds no published document: name OUT/<document>.") from None


def published_pages(folder: Path, manifest: Mapping[str, Any]) -> Iterator[PageResult]:
    """Return the pages of the document in ``folder`` one by one, as they were published.

    Raises:
        ConfigError: it was published without pages.jsonl.
        ContractViolated: pages.jsonl is missing or not what was published.
    """
    name, digests = FORMATS["jsonl"].file_name, published_digests(manifest)
    if name not in digests:
        raise ConfigError(f"{folder} has no {name}: run again with --format that includes jsonl.")
    _require_published(str(folder), {name: digests[name]})
    return read_pages(folder / name)


def require_whole(folder: str) -> None:
    """Refuse what is published in ``folder``, if anything is, unless every file of it is there as it was published.

    Raises:
        ContractViolated: one is missing or another one, or the manifest is damaged.
    """
    try:
        manifest = read_manifest(folder)
    except FileNotFoundError:
        return
    _require_published(folder, published_digests(manifest))


def _require_published(folder: str, digests: Mapping[str, str]) -> None:
    if damaged := storage.damaged_files(folder, digests):
        raise ContractViolated(f"{', '.join(damaged)} in {folder}: missing, or not what was published. {RUN_AGAIN}")


def published_parameters(settings: Settings, document_id: str, config_sha256: str) -> tuple[str, DigitizeConfig]:
    """Return the folder of a document, published or in quarantine, and the configuration that made it.

    Raises:
        ConfigError: it was never published, or with another reading configuration, or by a version of tomeflow that
            did not write its parameters down.
        ContractViolated: its manifest is damaged.
    """
    published_folder = storage.join(settings.output, document_id)
    for folder in (published_folder, str(quarantine_folder(settings.work_folder, document_id))):
        try:
            manifest = read_manifest(folder)
        except FileNotFoundError:
            continue
        if "parameters" not in manifest["run"]:
            raise ConfigError(f"{document_id} was published by an earlier version; run it again first: tomeflow run.")
        config = parse_record(DigitizeConfig.model_validate, manifest["run"]["parameters"], f"the manifest in {folder}")
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
    filesystem, path = storage.filesystem_of(storage.join(folder, FORMATS["jsonl"].file_name))
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
