"""Pages that were read again after their document: what replaces what, and in which memory they were read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from data_contracts.config import ReadingConfig
from data_contracts.result import PageResult, PageStatus


class PagePatch(BaseModel):
    """The reading of one page that stands in place of its chunk's.

    ``memory_sha256`` is over the patches before it that were in memory when it was read, None if it was read
    without the document's memory at all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    page: PageResult
    replaced_status: PageStatus
    reading: ReadingConfig = Field(description="with which this page was read")
    named: bool = Field(description="asked for; else read again since its context had changed")
    is_remembered: bool = Field(description="whether later pages find another memory because of it")
    memory_sha256: str | None

    @property
    def memory_key(self) -> str:
        """What later pages find in memory of this page, as a digest."""
        content = f"{self.page.page_number} {self.reading.sha256} {self.page.text}"
        return hashlib.sha256(content.encode()).hexdigest()


def memory_sha256(memory_keys: Iterable[str]) -> str:
    """Return one digest of what remembered patches, in page order, have done to memory; "" if there is none."""
    joined = " ".join(memory_keys)
    return hashlib.sha256(joined.encode()).hexdigest() if joined else ""
