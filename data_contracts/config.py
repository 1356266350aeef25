"""Every number a user may turn, with its unit, range, default and reason.

A run is its configuration: frozen, complete, nothing unknown accepted. ``ReadingConfig`` is what can
change a reading and therefore part of every checkpoint key; the rest of ``DigitizeConfig`` decides only
which pages are read, in what portions, and what is written.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Format = Literal["txt", "pdf", "jsonl"]


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RenderConfig(_Config):
    """How a page becomes pixels."""

    dpi: int | None = Field(None, ge=50, le=1200, description="rendering resolution; empty: the scan's own [dpi]")
    max_page_megapixels: float = Field(
        40.0, ge=1, le=400, description="larger pages are rendered smaller, so that one poster cannot fill memory [Mpx]"
    )


class SrSwaConfig(_Config):
    """The attention set A(p, t): how much of the document the decoder holds."""

    window_pages: int = Field(
        8, ge=1, le=64, description="pages held at full resolution, the current one included [pages]"
    )
    lookahead_pages: int = Field(0, ge=0, le=8, description="of those, pages after the current one [pages]")
    top_k: int = Field(4, ge=0, le=64, description="references fetched when the gate fires [pages]")
    reference_tokens: int = Field(16, ge=1, le=256, description="tokens kept of a page that left the window [tokens]")
    reference_pages: int = Field(64, ge=0, le=4096, description="capacity of the reference store [pages]")
    tail_tokens: int = Field(128, ge=0, le=8192, description="own output that stays visible, across pages [tokens]")
    max_window_pages: int = Field(16, ge=1, le=64, description="widest window that poor recall may ask for [pages]")
    gate_uncertainty: float = Field(
        0.1, ge=0, le=1, description="the gate fires above this uncertainty; 1 never fires [probability]"
    )
    hit_attention_ratio: float = Field(
        0.05, gt=0, le=1, description="attention mass that makes a fetched reference a hit [ratio]"
    )
    store_int8: bool = Field(False, description="hold references in 8 bits: half the memory, small loss")

    @model_validator(mode="after")
    def _window_holds_the_lookahead(self) -> Self:
        if self.lookahead_pages >= self.window_pages:
            raise ValueError(
                f"lookahead_pages {self.lookahead_pages} must be below window_pages {self.window_pages}: "
                "the window also holds the current page"
            )
        return self


class CompactConfig(_Config):
    """The embedded model."""

    detector_side_px: int = Field(
        1280, ge=320, le=4096, description="longer side of the image in which lines are sought; less is faster [px]"
    )
    recognizer_batch: int = Field(6, ge=1, le=64, description="lines recognised together, never across pages [lines]")
    threads: int = Field(
        2, ge=1, le=64, description="threads of the recogniser; recorded, since sums depend on it [threads]"
    )


class ReadingConfig(_Config):
    """All that can change what is read; its sha256 is part of every checkpoint key."""

    model: Literal["compact"] = Field("compact", description="which model reads")
    render: RenderConfig = RenderConfig()
    sr_swa: SrSwaConfig = SrSwaConfig()
    compact: CompactConfig = CompactConfig()

    @property
    def sha256(self) -> str:
        """Digest of the complete configuration, independent of process and field order."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


class DigitizeConfig(_Config):
    """One run: what is read, in what portions, and what is written."""

    reading: ReadingConfig = ReadingConfig()
    pages: str | None = Field(None, description="selected pages such as 1-20,35; empty: all")
    chunk_pages: int = Field(16, ge=1, le=1024, description="pages between two checkpoints [pages]")
    formats: tuple[Format, ...] = Field(("txt", "pdf", "jsonl"), description="what is published")
