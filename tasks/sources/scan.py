"""What in an archive is to become a document: each file, and each folder's page images together.

Only the listing and, of files never seen in this version, the first bytes are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from data_contracts.document import shown_name
from data_contracts.errors import ConfigError, UnreadableDocument
from tasks import listing, storage
from tasks.sources.page_images import HEAD_BYTES, KINDS_IN_WORDS, kind_of, natural_key

IMAGE_SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".jp2", ".j2k"))
"""A listing shows names alone: by these the page images of a folder are taken together."""

DOCUMENT_SUFFIXES = IMAGE_SUFFIXES | {".pdf"}
"""A file of such a name that is no document is a damaged one; any other is none of ours."""


@dataclass(frozen=True)
class ArchiveItem:
    """A document-to-be: one file, or the page images of the folder ``name`` (which then ends in ``/``).

    Bytes of ``name`` that are not UTF-8 are escaped; ``uri`` is as it is.
    """

    name: str
    uri: str
    files: tuple[listing.ListedFile, ...]

    @property
    def version(self) -> str:
        """What changes when the content does."""
        versions = "\n".join(f"{file.name} {file.version}" for file in self.files)
        return storage.sha256_bytes(versions.encode(errors="surrogateescape"))

    @property
    def claims_to_be_a_document(self) -> bool:
        """Whether its name promises a document."""
        return _suffix(self.files[0].name) in DOCUMENT_SUFFIXES


def scan_archive(prefix: str, output: str) -> list[ArchiveItem]:
    """Return what lies below the folder or ``s3://`` prefix, in natural order of names.

    The page images of a folder below ``prefix`` are one document, unless a PDF lies beside them; every other file
    is one of its own.

    Raises:
        UnreadableDocument: there is nothing at ``prefix``.
        ConfigError: ``output`` lies inside: what is published would be ingested again.
        StorageUnavailable: it cannot be listed.
    """
    if f"{_place(output)}/".startswith(f"{_place(prefix)}/"):
        raise ConfigError(f"the output {output} lies inside {prefix}: what is published there would be ingested again.")
    try:
        listed = listing.list_files(prefix)
    except FileNotFoundError as error:
        raise UnreadableDocument(f"there is no folder or prefix {prefix}. Check its spelling.") from error
    listed.sort(key=lambda file: natural_key(file.name))
    with_pdfs = {PurePosixPath(file.name).parent for file in listed if _suffix(file.name) == ".pdf"}
    groups: dict[str, list[listing.ListedFile]] = {}
    for file in listed:
        folder = PurePosixPath(file.name).parent
        is_page = folder.name and folder not in with_pdfs and _suffix(file.name) in IMAGE_SUFFIXES
        groups.setdefault(f"{folder}/" if is_page else file.name, []).append(file)
    return [
        ArchiveItem(
            shown_name(name),
            storage.join(prefix, name.rstrip("/")) if name.endswith("/") else files[0].uri,
            tuple(files),
        )
        for name, files in groups.items()
    ]


def why_not_a_document(item: ArchiveItem) -> str | None:
    """Return what speaks against ``item`` by its first bytes; None for what may be a document.

    Raises:
        FileNotFoundError: it is gone.
        StorageUnavailable: it cannot be read.
    """
    if len(item.files) > 1 or item.name.endswith("/"):
        return None
    (file,) = item.files
    if not file.size_bytes:
        return f"it is empty (0 bytes); expected {KINDS_IN_WORDS}"
    if kind_of(listing.read_head(file, HEAD_BYTES)) is None:
        return f"it is not {KINDS_IN_WORDS}, whatever its name says"
    return None


def names_gone(seen_earlier: Sequence[str], items: Sequence[ArchiveItem]) -> list[str]:
    """Return what was seen earlier and is not there any more."""
    return sorted(set(seen_earlier) - {item.name for item in items}, key=natural_key)


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _place(uri: str) -> str:
    path = storage.local_path(uri)
    return str(path.resolve()) if path is not None else uri.rstrip("/")
