"""Puts the readings of a document in the output folder: every format from the same pages, ``manifest.json`` last.

All files are first written beside their place, where a full disk or a crash leaves the published version
as it was. Then the old manifest is removed, the new files are moved in, and the new manifest after them:
who finds a manifest finds the files it lists, at every moment; who finds none has found nothing published.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from data_contracts.errors import ContractViolated, StorageUnavailable
from data_contracts.formats.manifest import MANIFEST, MANIFEST_SCHEMA_VERSION, parse_manifest
from data_contracts.ledger import balance
from data_contracts.result import PageResult, PageStatus
from tasks import listing, storage
from tasks.publishing.publication import Publication
from tasks.publishing.registry import FORMATS, Format, formats_named
from tasks.sources.stamp import require_unchanged


def publish_document(
    publication: Publication,
    folder: str | Path,
    formats: Sequence[str],
    manifest_fields: Mapping[str, Any],
    run_fields: Mapping[str, Any],
) -> dict[str, Any]:
    """Publish the pages of ``publication`` in ``folder`` and return the manifest.

    All formats are written in one sweep over the pages, which also balances them.
    ``manifest_fields`` and ``files`` make up the manifest; all of it, like every file, is a function of what
    was read and how. What differs from run to run goes into ``run_fields``, apart under ``run``.

    Raises:
        ConfigError: there is no such format.
        LedgerUnbalanced: the pages are not in ascending order, each once.
        ContractViolated: a file does not hold what was written.
        StorageUnavailable: there is no room or no answer.
        TooCostlyDocument: the source takes too much time or memory to copy.
        UnreadableDocument: the source was changed meanwhile. In all these cases nothing new is published.
    """
    document, target, chosen = publication.document, str(folder), formats_named(formats)
    with storage.storage_errors(target, "publish in"), _staging(target) as staging:
        selected = _selected(publication)
        counts, written_fields = _write(chosen, staging, publication, selected)
        manifest = {
            "schema_version": MANIFEST_SCHEMA_VERSION,
            "document": document.model_dump(mode="json", exclude={"uri"}),
            "selected_pages": selected,
            "unselected_page_count": document.page_count - len(selected),
            "status_counts": counts,
            "pages_with_own_text": [],
            **written_fields,
            **document.condition.manifest_fields(),
            **manifest_fields,
            "files": _described(chosen, staging, len(selected)),
            "run": dict(run_fields),
        }
        require_unchanged(document, publication.source)
        _swap_in(staging, target, manifest)
    return manifest


def _selected(publication: Publication) -> list[int]:
    """Return the numbers of the pages to be published, in ascending order, each once."""
    numbers = publication.selected
    return sorted(set(numbers if numbers is not None else (page.page_number for page in publication.pages())))


def _as_expected(
    pages: Iterable[PageResult], selected: Sequence[int], statuses: list[tuple[int, PageStatus]]
) -> Iterator[PageResult]:
    """Yield ``pages`` as long as they are the ``selected`` ones, in order; note in ``statuses`` what all are."""
    coming = iter(pages)
    for page in coming:
        statuses.append((page.page_number, page.status))
        if [page.page_number] != list(selected[len(statuses) - 1 : len(statuses)]):
            break
        yield page
    statuses += [(page.page_number, page.status) for page in coming]


def _write(
    formats: Sequence[Format], staging: Path, publication: Publication, selected: Sequence[int]
) -> tuple[dict[str, int], dict[str, Any]]:
    """Write all formats in one sweep over the pages; return the status counts and what the writers have to say.

    Raises:
        LedgerUnbalanced: the pages are not the selected ones; no writer got one that it does not expect.
    """
    statuses: list[tuple[int, PageStatus]] = []
    with ExitStack() as stack:
        begun = [one.writer(staging / one.file_name, publication, selected) for one in formats]
        writers = [stack.enter_context(writer) for writer in begun]
        for page in _as_expected(publication.pages(), selected, statuses):
            for writer in writers:
                writer.add(page)
        counts = balance(selected, statuses)
        for writer in writers:
            writer.finish()
        return counts, {name: value for writer in writers for name, value in writer.manifest_fields().items()}


@contextmanager
def _staging(target: str) -> Iterator[Path]:
    """Yield an empty folder, beside a local target so that files can be renamed into place; it is gone after."""
    local = storage.local_path(target)
    if local is None:
        with tempfile.TemporaryDirectory(prefix="tomeflow-") as folder:
            yield Path(folder)
        return
    staging = local.with_name(f".{local.name}.publishing")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _described(formats: Sequence[Format], staging: Path, expected_pages: int) -> dict[str, Any]:
    """Return digest and size of each written file, by name, after counting its pages.

    Raises:
        ContractViolated: one does not hold the pages that were written.
    """
    files = {}
    for one in sorted(formats, key=lambda one: one.file_name):
        path = staging / one.file_name
        found_pages = one.count_pages(path)
        if found_pages != expected_pages:
            raise ContractViolated(
                f"{path.name} holds {found_pages} pages, {expected_pages} were written; nothing was published. "
                "Run again, and report this as a bug if it happens twice."
            )
        files[path.name] = {"sha256": storage.sha256_file(str(path)), "size_bytes": path.stat().st_size}
    return files


def _swap_in(staging: Path, target: str, manifest: Mapping[str, Any]) -> None:
    """Replace what is published at ``target``; files of the old version that the new one lacks go too."""
    place = storage.join(target, MANIFEST)
    (staging / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    stale = _published_names(place) - set(manifest["files"])
    storage.delete(place)
    for name in sorted(stale):
        storage.delete(storage.join(target, name))
    for name in manifest["files"]:
        storage.move_in(staging / name, storage.join(target, name))
    _put_manifest(staging / MANIFEST, place)


def _put_manifest(manifest: Path, place: str) -> None:
    """Publish the manifest where there is none: of machines that publish at once, one wins and the others say so."""
    if storage.local_path(place) is not None:  # one machine, where the document's lock keeps others out
        storage.move_in(manifest, place)
        return
    try:
        storage.write_exclusive(place, manifest.read_bytes())
    except FileExistsError as error:
        raise StorageUnavailable(
            f"another machine has published {place} meanwhile; if it used other parameters, its files are mixed with "
            "these now. Run again, on one machine at a time: finished work is kept."
        ) from error


def _published_names(manifest: str) -> set[str]:
    """Return the files that the manifest lists, of those that are ours to delete."""
    return set(_stated(manifest, "files")) & {one.file_name for one in FORMATS.values()}


def published_page_numbers(folder: str) -> set[int]:
    """Return the numbers of the pages that what is published in ``folder`` consists of; none if nothing is."""
    return set(_stated(storage.join(folder, MANIFEST), "selected_pages"))


def _stated(manifest: str, field: str) -> Any:
    """Return a field of a manifest, or nothing where it is not there or not whole."""
    try:
        return json.loads(storage.read_bytes(manifest))[field]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ()


def read_manifest(folder: str) -> dict[str, Any]:
    """Return the manifest in ``folder``.

    Raises:
        FileNotFoundError: there is none, so nothing is published there.
        ContractViolated: it is damaged.
        StorageUnavailable: it cannot be read.
    """
    place = storage.join(folder, MANIFEST)
    return parse_manifest(storage.read_bytes(place), place)


def is_published(folder: str) -> bool:
    """Return whether ``folder`` has a manifest that can be read, and every file that it lists, by size: for a look.

    Raises:
        StorageUnavailable: the folder cannot be listed.
    """
    try:
        files = read_manifest(folder)["files"]
        sizes = {file.name: file.size_bytes for file in listing.list_files(folder)}
    except (FileNotFoundError, ContractViolated):
        return False
    return all(sizes.get(name) == said["size_bytes"] for name, said in files.items())


def published_digests(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return name -> sha256 of the files that ``manifest`` lists."""
    return {name: said["sha256"] for name, said in manifest["files"].items()}


def move_to_output(folder: Path, target: str, manifest_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Publish at ``target`` what was written whole in ``folder``, with ``manifest_fields`` in its manifest.

    Raises:
        FileNotFoundError: ``folder`` holds no manifest, so nothing whole.
        StorageUnavailable: there is no room or no answer.
    """
    with storage.storage_errors(target, "publish in"):
        manifest = {**read_manifest(str(folder)), **manifest_fields}
        _swap_in(folder, target, manifest)
    return manifest
