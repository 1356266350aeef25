"""Read one chunk: a state in, a state out, the pages in between.

Chunks of a document are decoded one after another, since each starts from the state of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from data_contracts.config import ReadingConfig
from data_contracts.document import ChunkRef, FeaturesRef, StateRef
from data_contracts.result import ChunkCheckpoint, ChunkResult, PageResult
from models.features import read_features
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.controller import MemoryWatermark
from models.sr_swa.memory.state import ReferenceState, load_state, state_bytes
from models.sr_swa.pages import EncodedPage, FailedPage
from models.sr_swa.pool import borrowed_slots
from models.sr_swa.protocol import OcrModel
from tasks import storage


def decode_chunk(
    chunk: ChunkRef,
    features: Sequence[FeaturesRef],
    model: OcrModel,
    reading: ReadingConfig,
    previous: StateRef | None,
    work_folder: str,
    name: str,
    isolated: Mapping[int, str] = MappingProxyType({}),
    begin_page: Callable[[int], None] = lambda _page_number: None,
) -> ChunkCheckpoint:
    """Decode the pages of ``chunk`` from the state ``previous`` and return where result and new state lie.

    ``features`` are those of the chunk and of the chunks that its lookahead reaches into; pages after the
    chunk are seen, not read. ``name`` becomes part of the file names. Pages ``isolated`` are not read: they fail
    with the reason given. ``begin_page`` is told the number of each page before it is read.

    Raises:
        StateRefused: the previous state or the features are damaged or belong to another model.
        StorageUnavailable: the result could not be written.
    """
    state = _load_state(previous, model, reading, work_folder)
    watermark = MemoryWatermark.for_cuda() if model.geometry.device.startswith("cuda") else None
    with borrowed_slots(model, reading.sr_swa) as slots:
        decoder = ContinuousDecoder(
            model, reading.sr_swa, state, config_sha256=reading.sha256, watermark=watermark, slots=slots
        )
        readings = decoder.decode(_encoded_pages(features, work_folder, isolated), chunk.page_numbers[-1])
        pages = tuple(_announced(readings, chunk.page_numbers, begin_page))
    state_ref = _store_state(decoder.state(), work_folder, name)
    data = ChunkResult(pages=pages, state=state_ref).model_dump_json().encode()
    digest = storage.sha256_bytes(data)
    uri = f"chunks/{name}.json"
    storage.write_bytes(storage.join(work_folder, uri), data)
    return ChunkCheckpoint(
        chunk_number=chunk.chunk_number,
        page_numbers=chunk.page_numbers,
        result_uri=uri,
        result_sha256=digest,
        state=state_ref,
        isolated=dict(isolated),
        timings=decoder.take_timings(),
    )


def _encoded_pages(
    features: Sequence[FeaturesRef], work_folder: str, isolated: Mapping[int, str]
) -> Iterator[EncodedPage | FailedPage]:
    for ref in features:
        for page in read_features(storage.read_verified(storage.join(work_folder, ref.uri), ref.sha256)):
            reason = isolated.get(page.page_number)
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


def _load_state(
    previous: StateRef | None, model: OcrModel, reading: ReadingConfig, work_folder: str
) -> ReferenceState | None:
    if previous is None:
        return None
    data = storage.read_verified(storage.join(work_folder, previous.uri), previous.sha256)
    return load_state(data, fingerprint=model.fingerprint, config_sha256=reading.sha256)


def _store_state(state: ReferenceState, work_folder: str, name: str) -> StateRef:
    data = state_bytes(state)
    digest = storage.sha256_bytes(data)
    uri = f"states/{name}-{digest[:16]}.safetensors"
    storage.write_bytes(storage.join(work_folder, uri), data)
    return StateRef(uri=uri, sha256=digest, size_bytes=len(data), next_page_number=state.next_page_number)
