"""Every number a user may turn, with its unit, range, default and reason.

A run is its configuration: frozen, complete, nothing unknown accepted. ``ReadingConfig`` is what can
change a reading and therefore part of every checkpoint key; the rest of ``DigitizeConfig`` decides only
which pages are read, in what portions, and what is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from data_contracts.errors import ConfigError


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
    threads: int = Field(
        2, ge=1, le=64, description="threads of the recogniser; recorded, since sums depend on it [threads]"
    )
    decoder: bool = Field(True, description="verify the hypothesis of unsure lines with the autoregressive decoder")
    lexicon_rescoring: bool = Field(
        True, description="score known words against the picture where the hypothesis is unsure"
    )
    word_lists: bool = Field(True, description="general word lists count as known words, once the language is clear")


class VlmConfig(_Config):
    """A large model; looked at only when ``model`` names one."""

    model_path: str | None = Field(
        None, description="folder with the model's weights; empty: its copy in the local cache of downloads"
    )
    device: Literal["auto", "cuda", "mps", "cpu"] = Field(
        "auto", description="where it computes; auto: the first that this machine has"
    )
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        "auto", description="type of weights and memory; auto: bfloat16 on a GPU that has it, else float32"
    )
    view_px: int = Field(
        1024,
        ge=64,
        le=4096,
        description="longer side of a page as a vision-language model sees it; a tower of fixed size has its own [px]",
    )
    max_new_tokens: int = Field(
        3072, ge=16, le=16384, description="output at which a page is cut off and reported as truncated [tokens]"
    )
    sink_tokens: int | None = Field(
        None,
        ge=0,
        le=64,
        description="of the tokens before a page, those held once and for good; empty: all of them [tokens]",
    )
    draft_tokens: int = Field(
        0, ge=0, le=64, description="outputs drafted by the compact model and verified in one pass; 0: none [tokens]"
    )
    pool_pages: int = Field(
        0, ge=0, le=1024, description="page slots that documents read side by side share; 0: each has its own [pages]"
    )


PLACES = {"vlm": {"model_path", "device", "pool_pages"}}
"""Where weights lie and computing is done. What they are, the model's fingerprint says: a moved folder is no change."""


class ReadingConfig(_Config):
    """All that can change what is read; its sha256 is part of every checkpoint key."""

    model: str = Field("compact", description="which model reads; vision-language: whichever lies in vlm.model_path")
    render: RenderConfig = RenderConfig()
    sr_swa: SrSwaConfig = SrSwaConfig()
    compact: CompactConfig = CompactConfig()
    vlm: VlmConfig = VlmConfig()

    @property
    def sha256(self) -> str:
        """Digest of the configuration without ``PLACES``, independent of process and field order."""
        fields = self.model_dump(mode="json", exclude=PLACES)
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class QualityConfig(_Config):
    """What a reading must keep to be published; part of no reading and of no checkpoint.

    Beyond a critical bound a page is quarantined, beyond a warning it is mentioned. ``version`` grows when a
    check changes its meaning.
    """

    version: Literal[3] = Field(3, description="meaning of the checks")
    gate: bool = Field(True, description="check before publishing and quarantine what fails")
    max_quarantined_ratio: float = Field(
        0.05, ge=0, le=1, description="quarantined pages that a published document may have [ratio]"
    )
    min_stopping_pages: int = Field(
        2, ge=1, description="quarantined pages below which a document is published whatever the ratio [pages]"
    )
    min_confidence: float = Field(0.5, ge=0, le=1, description="critical: mean confidence of a page [probability]")
    warn_confidence: float = Field(0.85, ge=0, le=1, description="warning: mean confidence of a page [probability]")
    max_unread_ratio: float = Field(
        0.15,
        ge=0,
        le=1,
        description="critical: print of a page that no character accounts for, its script unknown [ratio]",
    )
    warn_unread_ratio: float = Field(
        0.05, ge=0, le=1, description="warning: print of a page that no character accounts for [ratio]"
    )
    warn_cer: float = Field(0.1, ge=0, le=1, description="warning: character error rate of a page with a truth [ratio]")
    min_distinct_35_ratio: float = Field(0.5, ge=0, le=1, description="critical: different 35-grams of a page [ratio]")
    warn_distinct_20_ratio: float = Field(0.9, ge=0, le=1, description="warning: different 20-grams of a page [ratio]")
    max_repeated_lines: int = Field(12, ge=1, description="critical: lines that only repeat those before them [lines]")
    warn_repeated_lines: int = Field(4, ge=1, description="warning: lines that only repeat those before them [lines]")
    max_odd_character_ratio: float = Field(0.1, ge=0, le=1, description="critical: characters no print shows [ratio]")
    warn_odd_character_ratio: float = Field(0.01, ge=0, le=1, description="warning: characters no print shows [ratio]")
    warn_scripts: int = Field(3, ge=1, description="warning: scripts with 5 % of a page's letters or more [scripts]")
    min_hit_ratio: float = Field(0.02, ge=0, le=1, description="warning: hits among a document's fetches [ratio]")
    hit_ratio_fetches: int = Field(50, ge=1, description="fetches below which the hit ratio says nothing [references]")
    max_memory_slope_bytes: int = Field(
        1_000_000, ge=0, description="warning: growth of peak memory a page, over the second half [bytes]"
    )
    max_latency_drift_ratio: float = Field(
        2.0, gt=0, description="warning: median page time of the last third over that of the first [ratio]"
    )
    low_line_confidence: float = Field(
        0.8, ge=0, le=1, description="lines below this are kept in the warehouse for a person to look at [probability]"
    )


class DigitizeConfig(_Config):
    """One run: what is read, in what portions, what is written, and what must hold before it is published."""

    reading: ReadingConfig = ReadingConfig()
    pages: str | None = Field(None, description="selected pages such as 1-20,35; empty: all")
    chunk_pages: int = Field(16, ge=1, le=1024, description="pages between two checkpoints [pages]")
    chunk_retries: int = Field(
        2, ge=0, le=10, description="times a chunk is tried again, with growing pauses, after what may pass [times]"
    )
    step_timeout_seconds: float = Field(
        900, ge=1, le=86_400, description="longest silence of a page in work; then its process is started anew [s]"
    )
    render_timeout_seconds: float = Field(
        60,
        ge=1,
        le=86_400,
        description="processor time for rendering a page; then it is failed. Opening a document has as much, and more "
        "if it is large [s]",
    )
    formats: tuple[str, ...] = Field(("txt", "pdf", "jsonl"), description="what is published")
    quality: QualityConfig = QualityConfig()


def changed_reading(reading: ReadingConfig, overrides: Mapping[str, Any]) -> ReadingConfig:
    """Return ``reading`` with ``overrides`` such as {"render.dpi": 400}.

    Raises:
        ConfigError: lists every field that there is not, and every value that is out of range.
    """
    values: dict[str, Any] = reading.model_dump()
    unknown = []
    for name, value in overrides.items():
        section, _, field = name.rpartition(".")
        target = values.get(section) if section else values
        if not isinstance(target, dict) or field not in target:
            unknown.append(name)
        else:
            target[field] = value
    if unknown:
        raise ConfigError(f"there is no {', '.join(unknown)} in a reading configuration; write such as render.dpi=400.")
    try:
        return ReadingConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())) from None


def check_changes(overrides: Mapping[str, Any]) -> None:
    """Refuse ``overrides`` that no reading configuration takes, whichever they are to change.

    Raises:
        ConfigError: lists every field that there is not, and every value that is out of range.
    """
    widest = SrSwaConfig(window_pages=64)  # holds every lookahead, the one field that depends on another
    changed_reading(ReadingConfig(sr_swa=widest), overrides)
