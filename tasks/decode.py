"""Read one chunk: a state in, a state out, the pages in between.

Chunks of a document are decoded one after another, since each starts from the state of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from data_contracts.document import StateRef
from data_contracts.result import ChunkCheckpoint, ChunkResult, PageResult
from data_contracts.step_request import DecodeRequest
from models.features import read_features
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.controller import MemoryWatermark
from models.sr_swa.memory.state import ReferenceState, load_state, state_bytes
from models.sr_swa.pages import EncodedPage, FailedPage
from models.sr_swa.pool import borrowed_slots
from models.sr_swa.protocol import OcrModel
from tasks import storage


def decode_chunk(
    request: DecodeRequest, model: OcrModel, begin_page: Callable[[int], None] = lambda _page_number: None
) -> ChunkCheckpoint:
    """Decode the pages that are asked for and return where result and new state lie.

    ``begin_page`` is told the number of each page before it is read.

    Raises:
        StateRefused: the previous state or the features are damaged or belong to another model.
        StorageUnavailable: the result could not be written.
    """
    chunk, reading = request.chunk, request.reading
    state = _load_state(request, model)
    watermark = MemoryWatermark.for_cuda() if model.geometry.device.startswith("cuda") else None
    with borrowed_slots(model, reading.sr_swa) as slots:
        decoder = ContinuousDecoder(
            model, reading.sr_swa, state, config_sha256=reading.sha256, watermark=watermark, slots=slots
        )
        readings = decoder.decode(_encoded_pages(request), chunk.page_numbers[-1])
        pages = tuple(_announced(readings, chunk.page_numbers, begin_page))
    state_ref = _store_state(decoder.state(), request)
    data = ChunkResult(pages=pages, state=state_ref).model_dump_json().encode()
    digest = storage.sha256_bytes(data)
    uri = f"chunks/{request.name}.json"
    storage.write_bytes(storage.join(request.root, uri), data)
    return ChunkCheckpoint(
        chunk_number=chunk.chunk_number,
        page_numbers=chunk.page_numbers,
        result_uri=uri,
        result_sha256=digest,
        state=state_ref,
        isolated=dict(request.isolated),
        timings=decoder.take_timings(),
    )


def _encoded_pages(request: DecodeRequest) -> Iterator[EncodedPage | FailedPage]:
    for ref in request.features:
        for page in read_features(storage.read_verified(storage.join(request.root, ref.uri), ref.sha256)):
            reason = request.isolated.get(page.page_number)
            yield _failed(page, reason) if reason else page


def _failed(page: EncodedPage | FailedPage, reason: str) -> FailedPage:
    return FailedPage(page.page_number, reason, page.width_px, page.height_px, page.dpi, page.rotation)


def _announced(
    readings: Iterator[PageResult], page_numbers: Sequence[int], begin_page: Callable[[int], None]
) -> Iterator[PageResult]:
    """Yield ``readings``, saying before each which page is next."""
    for page_number in page_numbers:
        begin_page(page_number)
        yield next(readings)


def _load_state(request: DecodeRequest, model: OcrModel) -> ReferenceState | None:
    previous = request.previous
    if previous is None:
        return None
    data = storage.read_verified(storage.join(request.root, previous.uri), previous.sha256)
    return load_state(data, fingerprint=model.fingerprint, config_sha256=request.reading.sha256)


def _store_state(state: ReferenceState, request: DecodeRequest) -> StateRef:
    data = state_bytes(state)
    digest = storage.sha256_bytes(data)
    uri = f"states/{request.name}-{digest[:16]}.safetensors"
    storage.write_bytes(storage.join(request.root, uri), data)
    return StateRef(uri=uri, sha256=digest, size_bytes=len(data), next_page_number=state.next_page_number)
