"""References to what lies in storage: a URI with the sha256 of its bytes, never the bytes."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath

from pydantic import Field

from data_contracts.errors import UnreadableDocument
from data_contracts.records import FrozenRecord
from data_contracts.source_condition import SourceCondition

DOCUMENT_ID_STEM_CHARACTERS = 40
DOCUMENT_ID_DIGEST_CHARACTERS = 12


class DocumentRef(FrozenRecord):
    """A source document: one PDF, one image file, or a folder of page images."""

    document_id: str
    uri: str
    sha256: str = Field(description="of the file; of a folder: over its page names and their sha256")
    page_count: int = Field(ge=1)
    kind: str = Field(description="name of the kind of source, such as pdf")
    stamp: str = Field("", exclude=True, description="of the files as they were hashed; see source_stamp.py")
    condition: SourceCondition = Field(SourceCondition(), exclude=True, description="damage, restrictions, signatures")


class StateRef(FrozenRecord):
    """A reference state file. ``uri`` is relative to the work folder, so that it can be moved."""

    uri: str
    sha256: str
    size_bytes: int = Field(ge=0)
    next_page_number: int = Field(ge=1)


class FeaturesRef(FrozenRecord):
    """The encoded pages of one chunk, relative to the work folder."""

    uri: str
    sha256: str
    size_bytes: int = Field(ge=0)
    page_numbers: tuple[int, ...]
    isolated: dict[int, str] = Field({}, description="pages that were not looked at, and why")


class ChunkRef(FrozenRecord):
    """Consecutive selected pages that are decoded together."""

    chunk_number: int = Field(ge=1)
    page_numbers: tuple[int, ...] = Field(min_length=1)


def shown_name(name: str) -> str:
    """Return ``name`` with those of its bytes escaped that are not UTF-8: like this it can be stored and sent."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def require_utf8_name(uri: str) -> None:
    """Refuse a name that no record and no server takes.

    Raises:
        UnreadableDocument: ``uri`` has bytes that are not UTF-8.
    """
    if shown_name(uri) != uri:
        raise UnreadableDocument(f"the name {shown_name(uri)} is not UTF-8 (shown escaped). Rename it.")


def document_id(source_name: str, sha256: str) -> str:
    """Return slug of the file's stem + ``-`` + 12 hex digits of its content's sha256.

    The same bytes under the same name are one document; equal names with other bytes never collide.
    """
    stem = PurePosixPath(source_name.rstrip("/")).stem
    ascii_stem = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_stem.lower()).strip("-")[:DOCUMENT_ID_STEM_CHARACTERS].strip("-")
    return f"{slug or 'document'}-{sha256[:DOCUMENT_ID_DIGEST_CHARACTERS]}"
