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
from data_contracts.step_request import EncodeAgainRequest, EncodeRequest
from models.features import features_bytes, read_features
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
    request: EncodeRequest,
    render: Callable[[int], PageImage],
    model: OcrModel,
    look_closer: Callable[[PageImage], PageImage | None] = lambda seen: None,
) -> FeaturesRef:
    """Encode the pages of one chunk, but those isolated, and return where their features lie.

    ``look_closer`` is asked before a page is blank, as ``encode_pages`` says.

    Raises:
        StorageUnavailable: the features could not be written.
    """
    return _store(request, encode_pages(render, request.chunk.page_numbers, model, request.isolated, look_closer))


def encode_chunk_again(
    request: EncodeAgainRequest,
    render: Callable[[int], PageImage],
    model: OcrModel,
    look_closer: Callable[[PageImage], PageImage | None] = lambda seen: None,
) -> FeaturesRef:
    """Encode those pages anew that are to be, and return where their features and those of the others lie.

    Raises:
        BrokenChecksum: kept features are damaged.
        StorageUnavailable: the features could not be written.
    """
    before = _pages_as_they_were(request)

    def pages() -> Iterator[EncodedPage | FailedPage]:
        for number in request.chunk.page_numbers:
            if number in before and number not in request.renders:
                yield before[number]
            else:
                yield from encode_pages(render, (number,), model, request.isolated, look_closer)

    return _store(request, pages())


def _pages_as_they_were(request: EncodeAgainRequest) -> dict[int, EncodedPage | FailedPage]:
    """Return the pages whose features are kept, and those that had failed as failed."""
    pages: dict[int, EncodedPage | FailedPage] = {}
    for ref in request.kept:
        place = storage.join(request.root, ref.uri)
        if storage.exists_with_sha256(place, ref.sha256):
            kept = read_features(storage.read_verified(place, ref.sha256))
            pages |= {page.page_number: page for page in kept if page.page_number in request.chunk.page_numbers}
    for page in request.failed:
        failed = FailedPage(page.page_number, page.error or "", page.width_px, page.height_px, page.dpi)
        pages[page.page_number] = failed
    return pages


def _store(request: EncodeRequest, pages: Iterable[EncodedPage | FailedPage]) -> FeaturesRef:
    data = features_bytes(pages)
    digest = storage.sha256_bytes(data)
    uri = f"features/{request.name}-{digest[:16]}.safetensors"
    storage.write_bytes(storage.join(request.root, uri), data)
    numbers, isolated = request.chunk.page_numbers, dict(request.isolated)
    return FeaturesRef(uri=uri, sha256=digest, size_bytes=len(data), page_numbers=numbers, isolated=isolated)
