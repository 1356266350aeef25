"""Puts the readings of a document on the shelf: every format from the same pages, ``manifest.json`` last.

All files are first written beside their place, where a full disk or a crash leaves the published version
as it was. Then the old manifest is removed, the new files are moved in, and the new manifest after them:
who finds a manifest finds the files it lists, at every moment; who finds none has found nothing published.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from data_contracts.config import Format
from data_contracts.document import DocumentRef
from data_contracts.errors import ContractViolated
from data_contracts.jsonl import JsonlWriter, read_pages
from data_contracts.ledger import check_page_numbers
from data_contracts.mupdf import mupdf
from data_contracts.page_ranges import format_pages
from data_contracts.plain_text import PAGE_SEPARATOR, PlainTextWriter
from data_contracts.result import PageResult, PageStatus
from data_contracts.searchable_pdf import SearchablePdfWriter
from tasks import storage

MANIFEST = "manifest.json"
MANIFEST_SCHEMA_VERSION = 1
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
    pages: Iterable[PageResult],
    out_folder: str,
    formats: Sequence[Format],
    manifest_fields: dict[str, Any],
    *,
    selected: Sequence[int],
) -> dict[str, Any]:
    """Publish ``pages``, which are taken one by one, in ``out_folder``/<document id>; return the manifest.

    ``manifest_fields`` are added to the manifest; what differs from run to run belongs into its ``run``.
    Everything else in the manifest, and every file, depends on document, pages and formats alone.

    Raises:
        LedgerUnbalanced: ``pages`` are not the ``selected`` ones, in order.
        ContractViolated: a file does not hold what was written.
        StorageUnavailable: there is no room or no answer. In all cases nothing new is published.
    """
    target = storage.join(out_folder, document.document_id)
    with storage.storage_errors(target, "publish in"), _staging(target) as staging:
        writers = _writers(document, source_path, formats, selected, staging)
        counts, own_text_pages = _write(pages, selected, writers)
        names = [FILE_NAMES[name] for name in FILE_NAMES if name in formats]
        _check_files(staging, names, selected)
        manifest = {
            "schema_version": MANIFEST_SCHEMA_VERSION,
            "document": document.model_dump(mode="json", exclude={"uri"}),
            "selected_pages": format_pages(selected),
            "selected_page_count": len(selected),
            "unselected_page_count": document.page_count - len(selected),
            "status_counts": counts,
            "pages_with_own_text": format_pages(own_text_pages),
            **manifest_fields,
            "run": {"source": document.uri, **manifest_fields.get("run", {})},
            "files": {name: _describe(staging / name) for name in names},
        }
        (staging / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        _swap_in(staging, target, names)
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


def _writers(
    document: DocumentRef, source_path: Path, formats: Sequence[Format], selected: Sequence[int], staging: Path
) -> dict[Format, PageWriter]:
    writers: dict[Format, PageWriter] = {}
    if "txt" in formats:
        writers["txt"] = PlainTextWriter(staging / FILE_NAMES["txt"])
    if "jsonl" in formats:
        writers["jsonl"] = JsonlWriter(staging / FILE_NAMES["jsonl"])
    if "pdf" in formats:
        target = staging / FILE_NAMES["pdf"]
        writers["pdf"] = SearchablePdfWriter(source_path, document.kind, selected, target, document.sha256)
    return writers


def _write(
    pages: Iterable[PageResult], selected: Sequence[int], writers: dict[Format, PageWriter]
) -> tuple[dict[str, int], list[int]]:
    """Write every page in every format; return the status counts and the pages that kept a text of their own."""
    numbers: list[int] = []
    counts: Counter[PageStatus] = Counter()
    for page in pages:
        check_page_numbers(selected[: len(numbers) + 1], [*numbers, page.page_number])
        numbers.append(page.page_number)
        counts[page.status] += 1
        for writer in writers.values():
            writer.add(page)
    check_page_numbers(selected, numbers)
    for writer in writers.values():
        writer.finish()
    pdf = writers.get("pdf")
    own_text_pages = pdf.own_text_pages if isinstance(pdf, SearchablePdfWriter) else []
    return {status.value: counts[status] for status in PageStatus}, own_text_pages


def _check_files(staging: Path, names: Sequence[str], selected: Sequence[int]) -> None:
    """Read the files back and count their pages."""
    for name in names:
        count = _pages_in(staging / name)
        if count != len(selected):
            raise ContractViolated(
                f"{name} holds {count} pages, {len(selected)} were selected; nothing was published. "
                "Run again, and report this as a bug if it happens twice."
            )


def _pages_in(path: Path) -> int:
    if path.name == FILE_NAMES["jsonl"]:
        return sum(1 for _ in read_pages(path))
    if path.name == FILE_NAMES["txt"]:
        with path.open(encoding="utf-8", newline="\n") as file:
            return 1 + sum(line.count(PAGE_SEPARATOR) for line in file)
    with mupdf() as pymupdf, pymupdf.open(path, filetype="pdf") as pdf:
        return int(pdf.page_count)


def _describe(path: Path) -> dict[str, Any]:
    return {"sha256": storage.sha256_file(str(path)), "size_bytes": path.stat().st_size}


def _swap_in(staging: Path, target: str, names: Sequence[str]) -> None:
    """Replace what is published at ``target``; files of the old version that the new one lacks go too."""
    manifest = storage.join(target, MANIFEST)
    stale = _published_names(manifest) - set(names)
    storage.delete(manifest)
    for name in stale:
        storage.delete(storage.join(target, name))
    for name in [*names, MANIFEST]:
        storage.move_in(staging / name, storage.join(target, name))


def _published_names(manifest: str) -> set[str]:
    try:
        files = json.loads(storage.read_bytes(manifest))["files"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return set()
    return {name for name in files if name in FILE_NAMES.values()}
