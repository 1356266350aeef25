"""Render pages and turn them into features: a pure function of each page, mapped over chunks.

Pixels live only here, one page at a time; what leaves is a reference to a features file. A page that
cannot be rendered or encoded keeps its place as a ``FailedPage``: one bad page never costs the document.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from data_contracts.document import FeaturesRef
from data_contracts.errors import TomeflowError, page_context
from models.features import features_bytes
from models.sr_swa.pages import EncodedPage, FailedPage, PageImage
from models.sr_swa.protocol import OcrModel
from tasks import storage

# A run's front end follows this logger to count pages; ``record.page_number`` says which one.
logger = logging.getLogger("tomeflow.encode")


def encode_pages(
    render: Callable[[int], PageImage],
    page_numbers: Iterable[int],
    model: OcrModel,
    isolated: Mapping[int, str] = MappingProxyType({}),
    look_closer: Callable[[PageImage], PageImage | None] = lambda seen: None,
) -> Iterator[EncodedPage | FailedPage]:
    """Yield each page encoded, in order, holding one page image at a time.

    Those ``isolated`` are not looked at: they fail with the reason given. ``look_closer`` returns a page that seems
    blank in a finer resolution, and None where it has no more to show: only then it is blank.
    """
    for page_number in page_numbers:
        reason = isolated.get(page_number)
        page = FailedPage(page_number, reason) if reason else _encode_page(render, look_closer, page_number, model)
        if isinstance(page, FailedPage):
            logger.warning("page %d failed: %s", page_number, page.error, extra={"page_number": page_number})
        else:
            logger.info("page %d encoded", page_number, extra={"page_number": page_number})
        yield page


def _encode_page(
    render: Callable[[int], PageImage],
    look_closer: Callable[[PageImage], PageImage | None],
    page_number: int,
    model: OcrModel,
) -> EncodedPage | FailedPage:
    try:
        with page_context(page_number=page_number):
            image = render(page_number)
            page = model.encode_visual(image)
            while page.blank_reason and (closer := look_closer(image)):
                image = closer
                page = model.encode_visual(image)
            return page
    except TomeflowError as error:
        return FailedPage(page_number, error.message)
    except Exception as error:  # whatever a library throws at an odd page costs that page only
        logger.debug("page %d", page_number, exc_info=True)
        return FailedPage(page_number, f"{type(error).__name__}: {error}")


def encode_chunk(
    render: Callable[[int], PageImage],
    page_numbers: tuple[int, ...],
    model: OcrModel,
    work_folder: str,
    name: str,
    isolated: Mapping[int, str] = MappingProxyType({}),
    look_closer: Callable[[PageImage], PageImage | None] = lambda seen: None,
) -> FeaturesRef:
    """Encode the pages of one chunk, but those ``isolated``, and return where their features lie.

    ``look_closer`` is asked before a page is blank, as ``encode_pages`` says.

    Raises:
        StorageUnavailable: the features could not be written.
    """
    data = features_bytes(encode_pages(render, page_numbers, model, isolated, look_closer))
    digest = storage.sha256_bytes(data)
    uri = f"features/{name}-{digest[:16]}.safetensors"
    storage.write_bytes(storage.join(work_folder, uri), data)
    return FeaturesRef(uri=uri, sha256=digest, size_bytes=len(data), page_numbers=page_numbers, isolated=dict(isolated))
