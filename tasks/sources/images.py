"""Images as sources: a file, which in TIFF may hold many pages, or a folder of them. Through Pillow."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from data_contracts.document import shown_name
from data_contracts.errors import EmptyDocument
from tasks import storage
from tasks.isolation import bounded_call
from tasks.sources.page_images import (
    Frame,
    check_size,
    eight_bits,
    file_kind,
    find_pages,
    folder_files,
    frames_of,
    open_image,
    shown_dpi,
    square_pixels,
    upright,
)
from tasks.sources.pdf.mupdf import POINTS_PER_INCH
from tasks.sources.pdf.resolution import whole_pixels
from tasks.sources.protocol import Asked, ChooseDpi, Examined, Rendered, SourceKind

if TYPE_CHECKING:
    from PIL.Image import Image

LOGGER = logging.getLogger("tomeflow.ingest")


class ImageSource(SourceKind):
    """The frames of an image file."""

    name = "image"

    def __init__(self, path: Path) -> None:
        """Open nothing yet."""
        super().__init__(path)
        self._frames: list[Frame] = []
        self._image: Image | None = None
        self._image_path: Path | None = None

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether it is a file of a kind of image that is read here."""
        return not path.is_dir() and file_kind(path) not in (None, "pdf")

    def examine(self, asked: Asked) -> Examined:
        """Count the pages, in a process of its own."""
        return Examined(self.path, int(bounded_call(self.path, asked.seconds, count_frames, self.path)))

    def pixels(self, page_number: int, choose_dpi: ChooseDpi) -> Rendered | None:
        """Return a page upright, with square pixels."""
        import numpy as np

        self._frames = self._frames or frames_of(self.path)
        image = self._frame(self._frames[page_number - 1])
        check_size(image)
        shown, own_dpi = square_pixels(upright(image), shown_dpi(image))
        size_pt = (shown.width * POINTS_PER_INCH / own_dpi, shown.height * POINTS_PER_INCH / own_dpi)
        dpi = choose_dpi(own_dpi, own_dpi, size_pt)
        if dpi is None:
            return None
        if dpi != own_dpi:
            scaled = (whole_pixels(size_pt[0], dpi), whole_pixels(size_pt[1], dpi))
            shown = eight_bits(shown).resize(scaled, reducing_gap=3.0)
        return np.array(eight_bits(shown).convert("RGB")), dpi

    def close(self) -> None:
        """Close the image."""
        if self._image is not None:
            self._image.close()
        self._image = self._image_path = None

    def scan_digests(self, page_numbers: Sequence[int]) -> dict[int, str]:
        """Return the digest of each page's file, and which of its frames it is."""
        frames = frames_of(self.path)
        files = {frame.path: hashlib.sha256(frame.path.read_bytes()).hexdigest() for frame in frames}
        return {number: f"{files[frames[number - 1].path]} {frames[number - 1].index}" for number in page_numbers}

    def image_pages(self) -> list[Frame] | None:
        """Return the frames."""
        return frames_of(self.path)

    def _frame(self, frame: Frame) -> Image:
        """Return the image at ``frame``; the file stays open, since finding frame n of a TIFF means walking n."""
        if self._image is None or self._image_path != frame.path:
            if self._image is not None:
                self._image.close()
            self._image, self._image_path = open_image(frame.path), frame.path
            find_pages(self._image, frame.path)  # in a folder, a file whose frames cannot be counted is one page
        self._image.seek(frame.index)
        return self._image


class FolderSource(ImageSource):
    """The page images of a folder, in natural order."""

    name = "folder"
    changed = "a page file was replaced, added or removed"

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether it is a folder."""
        return path.is_dir()

    def sha256(self) -> str:
        """Return the digest over the names and digests of the pages."""
        digest = hashlib.sha256()
        for image in folder_files(self.path)[0]:
            digest.update(f"{image.name}\0{storage.sha256_file(str(image))}\n".encode(errors="surrogateescape"))
        return digest.hexdigest()

    def examine(self, asked: Asked) -> Examined:
        """Count the pages; say which files are none.

        Raises:
            EmptyDocument: none is.
        """
        images, ignored = folder_files(self.path)
        if ignored:
            LOGGER.warning("%s: left out, since not page images: %s", asked.name, ", ".join(map(shown_name, ignored)))
        if not images:
            raise EmptyDocument(
                f"the folder {asked.name} holds no page images (PNG, JPEG, TIFF, WebP, JPEG 2000). PDFs in it are "
                f"documents of their own: name them, or have all taken with tomeflow ingest {asked.uri}"
            )
        return super().examine(asked)


def count_frames(path: Path) -> int:
    """Return how many pages the image file, or the folder, at ``path`` has."""
    return len(frames_of(path))
