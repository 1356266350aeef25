"""Turns pages into pixels: PDF pages through MuPDF, image files through Pillow, one page at a time.

A scanned page is rendered on its own pixel grid, never enlarged: the scan holds no more than that. Only a page that
seems blank is looked at again, larger, before that is believed.
Everything a page asks for on its way to the screen (/Rotate, CropBox, EXIF orientation) is done here;
whether the text then stands upright is for the model to find out.
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from data_contracts.config import RenderConfig
from data_contracts.errors import RenderFailed, TomeflowError, page_context
from data_contracts.out_of_memory import is_out_of_memory
from tasks.sources.page_images import is_of_one_colour
from tasks.sources.pdf.resolution import CLOSER_RATIO, LEGIBLE_DPI, capped, closer_dpi
from tasks.sources.protocol import Rendered
from tasks.sources.registry import source_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from models.sr_swa.pages import PageImage


class Seen(NamedTuple):
    """A look at a page on which nothing was read: its resolution, and whether it is of one colour throughout."""

    dpi: float
    is_of_one_colour: bool


def seen_of(image: PageImage) -> Seen:
    """Return what ``image`` showed."""
    return Seen(image.dpi, is_of_one_colour(image.pixels))


class PageSource:
    """The pages of one document on a local path; a context manager. Invariant: memory does not grow with pages."""

    def __init__(self, path: Path, kind: str, config: RenderConfig) -> None:
        """Open lazily: nothing is read before the first page is asked for."""
        self._source = source_of(path, kind)
        self._config = config
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close what is open."""
        self.close()

    def close(self) -> None:
        """Close the document or image; a later ``render`` opens it again."""
        self._source.close()

    def render(self, page_number: int) -> PageImage:
        """Return page ``page_number`` (1-based) as RGB pixels and the resolution they have.

        Raises:
            RenderFailed: the page is damaged or too large; the other pages are not affected.
        """
        rendered = self.pixels(page_number)
        assert rendered is not None, "the first look shows more than none"
        return page_image(page_number, *rendered)

    def look_closer(self, seen: PageImage) -> PageImage | None:
        """Return the page of ``seen``, on which nothing was read, finer; None where it has no more to show.

        Raises:
            RenderFailed: it has, and the largest picture that is allowed is too coarse for text.
        """
        rendered = self.pixels(seen.page_number, seen_of(seen))
        return None if rendered is None else page_image(seen.page_number, *rendered)

    def pixels(self, page_number: int, seen: Seen | None = None) -> Rendered | None:
        """Return a page as it is first looked at, or finer than ``seen``; None where that would show no more.

        For a process that has no model: what it returns needs none to be sent.

        Raises:
            RenderFailed: as ``render`` and ``look_closer``.
        """
        with page_context(page_number=page_number), self._one_at_a_time:
            try:
                return self._source.pixels(page_number, partial(self._dpi, seen))
            except TomeflowError:
                raise
            except Exception as error:  # damaged pages make MuPDF and Pillow raise whatever they met first
                if is_out_of_memory(error):
                    what = f"no memory for its pixels ({error or type(error).__name__})"
                    raise RenderFailed(f"{what}: lower max_page_megapixels or give --dpi.") from error
                raise RenderFailed(
                    f"could not be rendered ({error}). It is probably damaged; repair the file "
                    "(qpdf damaged.pdf repaired.pdf) or get it again, or leave the page out with --pages."
                ) from error

    def _dpi(self, seen: Seen | None, own_dpi: float, finest_dpi: float, size_pt: tuple[float, float]) -> float | None:
        """Return the resolution for a page of ``size_pt``; None where it would show no more than ``seen`` does.

        Raises:
            RenderFailed: nothing is legible in ``seen``, and the limit of pixels allows no finer picture.
        """
        limit = self._config.max_page_megapixels
        if seen is None:
            return capped(self._config.dpi or own_dpi, *size_pt, limit)
        wanted = closer_dpi(seen.dpi, finest_dpi, *size_pt)
        if capped(wanted, *size_pt, limit) > CLOSER_RATIO * seen.dpi:
            return capped(wanted, *size_pt, limit)
        is_held_back = wanted > CLOSER_RATIO * seen.dpi and seen.dpi < LEGIBLE_DPI
        if is_held_back and not seen.is_of_one_colour:
            raise RenderFailed(
                f"at {limit:g} megapixels it has {seen.dpi:.0f} dpi, at which no text can be made out. Raise "
                "max_page_megapixels, or cut it into smaller pages."
            )
        return None


def page_image(page_number: int, pixels: npt.NDArray[np.uint8], dpi: float) -> PageImage:
    """Return what was rendered as the record that models take."""
    from models.sr_swa.pages import PageImage

    return PageImage(page_number=page_number, pixels=pixels, dpi=dpi)
