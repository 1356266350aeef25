"""What writes a document in one format: begun with a path, given page after page, then finished."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from data_contracts.result import PageResult


class PageWriter(ABC):
    """Writes one format page by page, holding little; a context manager, for what it may hold open."""

    def __enter__(self) -> Self:
        """Begin the file, where ``__init__`` did not; return itself."""
        return self

    def __exit__(  # noqa: B027  # most writers hold nothing open
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let go of what is open, also after an error."""

    @abstractmethod
    def add(self, page: PageResult) -> None:
        """Append the next page."""

    def finish(self) -> None:  # noqa: B027  # of most writers
        """Write what is left; here nothing is, since every page was written when it came."""

    def manifest_fields(self) -> Mapping[str, Any]:
        """Return what the manifest says of a finished file beside its digest; raises nothing but what ``add`` does."""
        return {}
