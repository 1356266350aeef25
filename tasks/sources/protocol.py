"""What a kind of source owes: to be recognised, looked at, rendered, digested, and put into the PDF."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from data_contracts.source_condition import SourceCondition
from tasks import storage
from tasks.sources.page_images import Frame

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Rendered: TypeAlias = "tuple[npt.NDArray[np.uint8], float]"
"""RGB pixels [height, width, 3] and their resolution [dpi]."""

ChooseDpi: TypeAlias = Callable[[float, float, tuple[float, float]], float | None]
"""(own resolution [dpi], finest that shows more [dpi], size [pt]) -> resolution to render at; None: not at all."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a source: ``name`` and ``uri`` are for messages.

    ``spool_folder`` holds copies; ``seconds`` is the processor time that opening a small source may take.
    """

    name: str
    uri: str
    sha256: str
    spool_folder: Path
    seconds: float


@dataclass(frozen=True)
class Examined:
    """What a look at a source showed. ``readable`` is the path to read it from: its own, or that of a mended copy."""

    readable: Path
    page_count: int
    condition: SourceCondition = field(default_factory=SourceCondition)


class SourceKind(ABC):
    """The pages of one document of a kind, at a local path. One thread at a time; nothing is read before it is asked.

    ``name`` stands in ``DocumentRef.kind``; ``changed`` says in words how two documents of one name differ.
    """

    name: ClassVar[str]
    changed: ClassVar[str] = "its bytes are others"

    def __init__(self, path: Path) -> None:
        """Open nothing yet."""
        self.path = path

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether what lies at ``path`` is of this kind: by content, never by suffix."""

    def sha256(self) -> str:
        """Return the digest of the content."""
        return storage.sha256_file(str(self.path))

    @abstractmethod
    def examine(self, asked: Asked) -> Examined:
        """Return the number of pages, and what state the source is in, within bounds of time and memory.

        Raises:
            UnreadableDocument: it is too damaged, needs a password or has no pages.
            TooCostlyDocument: that takes too much time or memory.
            StorageUnavailable: there is no room for a copy.
        """

    @abstractmethod
    def pixels(self, page_number: int, choose_dpi: ChooseDpi) -> Rendered | None:
        """Return a page (1-based) at the resolution that ``choose_dpi`` returns; None where it returns none.

        Raises:
            RenderFailed: the page is damaged or too large. Other errors are taken for damage too.
        """

    def close(self) -> None:  # noqa: B027  # where nothing stays open
        """Close what is open; it is opened again when a page is asked for."""

    @abstractmethod
    def scan_digests(self, page_numbers: Sequence[int]) -> dict[int, str]:
        """Return page number -> digest of its image data as they lie there, for those of the pages that have any."""

    @abstractmethod
    def image_pages(self) -> list[Frame] | None:
        """Return the image that becomes each page of ``document.pdf``; None: the source is a PDF, which is copied."""
