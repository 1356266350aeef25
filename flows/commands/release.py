"""``tomeflow release``: a person overrules the gate, by name, with a reason, for good.

The readings do not change. When nothing quarantines the document any more, its outputs go from the quarantine to
the published_folder; the release also counts in every later run of the same document with the same configuration.
"""

from __future__ import annotations

import argparse
import getpass
import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from data_contracts.errors import ConfigError
from data_contracts.formats.manifest import MANIFEST
from data_contracts.quality.verdict import Release, Verdict
from data_contracts.records import RUN_AGAIN
from flows.execution.single_flight import one_run_at_a_time
from flows.published import require_whole
from flows.report.document import write_report
from flows.settings import read_settings
from tasks import storage
from tasks.plan import parse_pages
from tasks.publishing.publish import is_published, move_to_output, read_manifest
from tasks.publishing.registry import FORMATS
from tasks.validate import quarantine_folder, read_verdict, record_releases, verdict_fields

LAST_PAGE = 100_000
"""Bound of the page list; that a page is in quarantine is asked apart."""


def release_pages(output: str, document_id: str, pages: str, why: str, released_by: str) -> Verdict:
    """Release ``pages`` (such as 79,83) of a document; return the verdict as it is now.

    Raises:
        ConfigError: no reason or no name, no such document, or a page that is not in quarantine.
        ContractViolated: the verdict, or what was quarantined or published, is damaged; nothing is released.
        StorageUnavailable: the release cannot be recorded, or the document not be moved to the output folder.
    """
    if not why.strip() or not released_by.strip():
        raise ConfigError("a release needs a reason (--why) and a name (--by): both stay with the document.")
    work = read_settings(output).work_folder
    with one_run_at_a_time(work / "locks", document_id):
        verdict = read_verdict(work, document_id)
        numbers = _quarantined(verdict, pages)
        for place in (str(quarantine_folder(work, document_id)), storage.join(output, document_id)):
            require_whole(place)
        now = datetime.now(UTC)
        releases = [
            Release(page_number=number, why=why.strip(), released_by=released_by.strip(), released_at=now)
            for number in numbers
        ]
        verdict = record_releases(work, verdict, releases)
        _publish_what_may(output, work, verdict)
        if verdict.is_publishable:
            _renew_report(storage.local_path(storage.join(output, document_id)))
    return verdict


def _quarantined(verdict: Verdict, pages: str) -> Sequence[int]:
    quarantined = [page.page_number for page in verdict.quarantined]
    numbers = parse_pages(pages, LAST_PAGE)
    if wrong := [number for number in numbers if number not in quarantined]:
        raise ConfigError(
            f"pages {', '.join(map(str, wrong))} of {verdict.document_id} are not in quarantine; "
            f"in quarantine: {', '.join(map(str, quarantined)) or 'none'}."
        )
    return numbers


def _publish_what_may(output: str, work: Path, verdict: Verdict) -> None:
    """Move the document to the output folder if nothing quarantines it; a published one gets its manifest rewritten."""
    kept, published_folder = quarantine_folder(work, verdict.document_id), storage.join(output, verdict.document_id)
    fields = {"gate": verdict_fields(verdict)}
    if not verdict.is_publishable:
        return
    if (kept / MANIFEST).is_file():
        move_to_output(kept, published_folder, fields)
        shutil.rmtree(kept, ignore_errors=True)
        return
    place = storage.join(published_folder, MANIFEST)
    try:
        manifest = read_manifest(published_folder) | fields
    except FileNotFoundError:
        return  # neither kept nor published: the next run publishes
    storage.write_bytes(place, (json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode())


def _renew_report(published_folder: Path | None) -> None:
    """Have the report of what is published say what was released; none where no run would write one either."""
    if (
        published_folder
        and (published_folder / MANIFEST).is_file()
        and (published_folder / FORMATS["jsonl"].file_name).is_file()
    ):
        write_report(published_folder)


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow release`` with parsed ``options`` (``output``, ``document``, ``pages``, ``why``, ``by``)."""
    verdict = release_pages(
        options.output, options.document, options.pages, options.why, options.by or getpass.getuser()
    )
    published_folder = storage.join(options.output, verdict.document_id)
    if verdict.is_publishable and is_published(published_folder):
        print(f"{verdict.document_id} is released: {published_folder}")
    elif verdict.is_publishable:
        print(f"{verdict.document_id} is released, but what was quarantined is gone. {RUN_AGAIN}")
    else:
        print(f"{verdict.document_id} stays in quarantine: {verdict.summary}")
    return 0
