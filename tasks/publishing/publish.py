"""Puts the readings of a document in the output folder: every format from the same pages, ``manifest.json`` last.

All files are first written beside their place, where a full disk or a crash leaves the published version
as it was. Then the old manifest is removed, the new files are moved in, and the new manifest after them:
who finds a manifest finds the files it lists, at every moment; who finds none has found nothing published.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from data_contracts.config import Format
from data_contracts.document import DocumentRef
from data_contracts.errors import ContractViolated, StorageUnavailable
from data_contracts.formats.jsonl import JsonlWriter, read_pages
from data_contracts.formats.manifest import MANIFEST, MANIFEST_SCHEMA_VERSION, parse_manifest
from data_contracts.ledger import check_ledger
from data_contracts.result import PageResult
from tasks import storage
from tasks.isolation import BOUND_SECONDS
from tasks.publishing.bounded_pdf import BoundedPdfWriter
from tasks.publishing.old_text_layer import TextLayer
from tasks.publishing.plain_text import PAGE_SEPARATOR, PlainTextWriter
from tasks.sources.pdf.mupdf import mupdf
from tasks.sources.stamp import require_unchanged

LOGGER = logging.getLogger("tomeflow.publish")

FILE_NAMES: dict[Format, str] = {"txt": "document.txt", "pdf": "document.pdf", "jsonl": "pages.jsonl"}


class PageWriter(Protocol):
    """Writes one format page by page, holding little."""

    def add(self, page: PageResult) -> None:
        """Append the next page."""

    def finish(self) -> None:
        """Complete the file."""


def publish_document(
    document: DocumentRef,
    source_path: Path,
    pages: Callable[[], Iterable[PageResult]],
    folder: str | Path,
    formats: Sequence[Format],
    manifest_fields: Mapping[str, Any],
    run_fields: Mapping[str, Any],
    seconds: float = BOUND_SECONDS,
) -> dict[str, Any]:
    """Publish the readings of ``document`` in ``folder`` and return the manifest.

    ``pages`` is called twice and read page by page: first for which pages there are, then for their text.
    ``manifest_fields`` and ``files`` make up the manifest; all of it, like every file, is a function of what
    was read and how. What differs from run to run goes into ``run_fields``, apart under ``run``.
    ``seconds`` is the processor time that a page may take.

    Raises:
        LedgerUnbalanced: ``pages`` are not in ascending order, each once.
        ContractViolated: a file does not hold what was written.
        StorageUnavailable: there is no room or no answer.
        TooCostlyDocument: the source takes too much time or memory to copy.
        UnreadableDocument: the source was changed meanwhile. In all these cases nothing new is published.
    """
    target = str(folder)
    with storage.storage_errors(target, "publish in"), _staging(target) as staging, ExitStack() as stack:
        selected = [page.page_number for page in pages()]
        counts = check_ledger(sorted(set(selected)), pages())
        writers = _text_writers(formats, staging)
        if "pdf" in formats:
            begun = (source_path, document.kind, selected, staging / FILE_NAMES["pdf"], document.sha256)
            writers["pdf"] = stack.enter_context(BoundedPdfWriter(*begun, seconds=seconds))
        for page in pages():
            for writer in writers.values():
                writer.add(page)
        for writer in writers.values():
            writer.finish()
        manifest = {
            "schema_version": MANIFEST_SCHEMA_VERSION,
            "document": document.model_dump(mode="json", exclude={"uri"}),
            "selected_pages": selected,
            "unselected_page_count": document.page_count - len(selected),
            "status_counts": counts,
            **_text_layers(writers.get("pdf")),
            **document.condition.manifest_fields(),
            **_left_out(document, writers.get("pdf")),
            **manifest_fields,
            "files": {path.name: _describe(path, len(selected)) for path in sorted(staging.iterdir())},
            "run": dict(run_fields),
        }
        require_unchanged(document, source_path)
        _swap_in(staging, target, manifest)
    return manifest


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


def _text_writers(formats: Sequence[Format], staging: Path) -> dict[Format, PageWriter]:
    writers: dict[Format, PageWriter] = {}
    if "txt" in formats:
        writers["txt"] = PlainTextWriter(staging / FILE_NAMES["txt"])
    if "jsonl" in formats:
        writers["jsonl"] = JsonlWriter(staging / FILE_NAMES["jsonl"])
    return writers


def _text_layers(pdf: PageWriter | None) -> dict[str, Any]:
    """Return the pages of ``document.pdf`` by what became of their text, and those where rubbish was left."""
    if not isinstance(pdf, BoundedPdfWriter):
        return {"pages_with_own_text": []}
    text_layers: dict[int, TextLayer] = pdf.text_layers
    pages = {layer: [n for n, found in text_layers.items() if found is layer] for layer in TextLayer}
    return {
        "pages_with_own_text": pages[TextLayer.KEPT],
        "pages_with_rubbish_text": pdf.rubbish_pages,
        "text_layers": {layer.value: numbers for layer, numbers in pages.items() if numbers},
    }


def _left_out(document: DocumentRef, pdf: PageWriter | None) -> dict[str, Any]:
    """Return and tell what the source has and its ``document.pdf`` has not; nothing where it has all."""
    left_out = pdf.left_out if isinstance(pdf, BoundedPdfWriter) else []
    if not left_out:
        return {}
    LOGGER.warning("%s: document.pdf comes without %s.", document.document_id, "; ".join(left_out))
    return {"left_out_of_pdf": left_out}


def _describe(path: Path, expected_pages: int) -> dict[str, Any]:
    """Return digest and size of a written file, after counting its pages.

    Raises:
        ContractViolated: it does not hold the pages that were written.
    """
    found_pages = _pages_in(path)
    if found_pages != expected_pages:
        raise ContractViolated(
            f"{path.name} holds {found_pages} pages, {expected_pages} were written; nothing was published. "
            "Run again, and report this as a bug if it happens twice."
        )
    return {"sha256": storage.sha256_file(str(path)), "size_bytes": path.stat().st_size}


def _pages_in(path: Path) -> int:
    if path.name == FILE_NAMES["jsonl"]:
        return sum(1 for _ in read_pages(path))
    if path.name == FILE_NAMES["txt"]:
        with path.open(encoding="utf-8", newline="\n") as file:
            return 1 + sum(line.count(PAGE_SEPARATOR) for line in file)
    with mupdf() as pymupdf, pymupdf.open(path, filetype="pdf") as pdf:
        return int(pdf.page_count)


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
    return set(_stated(manifest, "files")) & set(FILE_NAMES.values())


def published_pages(folder: str) -> set[int]:
    """Return the pages that what is published in ``folder`` consists of; none if nothing is."""
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
        sizes = {file.name: file.size_bytes for file in storage.list_files(folder)}
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
