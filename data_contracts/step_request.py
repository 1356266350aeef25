"""What a flow asks of the process that holds the model: one record a step, references instead of bytes.

Plain records: they travel to another process or machine, and a path need not be UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from data_contracts.config import ReadingConfig, RenderConfig
from data_contracts.document import ChunkRef, FeaturesRef, StateRef
from data_contracts.result import PageResult


@dataclass(frozen=True)
class Scan:
    """A document's file or folder on this machine; a page may take ``render_seconds`` of processor time to render."""

    path: str
    kind: str
    render_seconds: float


@dataclass(frozen=True)
class StepRequest:
    """A step for the model of ``reading``; ``name`` is the key of what it makes, DOCUMENT_ID/..."""

    name: str
    reading: ReadingConfig


@dataclass(frozen=True)
class FingerprintRequest(StepRequest):
    """Load the model and say what tells it from others."""


@dataclass(frozen=True)
class ChunkRequest(StepRequest):
    """A step over the pages of ``chunk``; those ``isolated`` fail with the reason given. URIs are below ``root``."""

    chunk: ChunkRef
    root: str
    isolated: Mapping[int, str] = field(default_factory=dict, kw_only=True)

    def without(self, isolated: Mapping[int, str]) -> Self:
        """Return the request for another attempt, page by page, that leaves out the pages ``isolated``."""
        return replace(self, isolated=isolated)


@dataclass(frozen=True)
class EncodeRequest(ChunkRequest):
    """Render and encode the pages; without ``load_ahead`` one is in work at a time, so that a crash has one culprit."""

    scan: Scan
    load_ahead: bool = field(default=True, kw_only=True)

    def without(self, isolated: Mapping[int, str]) -> Self:
        """Return the request for another attempt, page by page, that leaves out the pages ``isolated``."""
        return replace(self, isolated=isolated, load_ahead=False)


@dataclass(frozen=True)
class EncodeAgainRequest(EncodeRequest):
    """Encode the pages of ``renders`` anew, each rendered so; the others are to be as they were.

    Those have failed before (``failed``), or their features lie in ``kept``; if these were collected, they are encoded
    anew as well. ``load_ahead`` has no bearing: what is read again are single pages.
    """

    renders: Mapping[int, RenderConfig]
    failed: tuple[PageResult, ...]
    kept: tuple[FeaturesRef, ...]


@dataclass(frozen=True)
class DecodeRequest(ChunkRequest):
    """Decode the pages from the state ``previous``.

    ``features`` are those of the chunk and of the pages that its lookahead reaches into: these are seen, not read.
    """

    features: tuple[FeaturesRef, ...]
    previous: StateRef | None
