"""A chunk is decoded from the state before it, verified, and chunking does not matter."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fakes import ScriptedModel, scripted_pages

from data_contracts.config import ReadingConfig, SrSwaConfig
from data_contracts.document import ChunkRef, FeaturesRef, StateRef
from data_contracts.errors import BrokenChecksum, WrongModel
from data_contracts.result import ChunkCheckpoint, ChunkResult, PageResult, PageStatus
from data_contracts.step_request import DecodeRequest
from models.features import features_bytes
from tasks import storage
from tasks.decode import decode_chunk
from tasks.plan import plan_chunks

PAGES = 13
FAILED, BLANK = (3,), (5, 9)


def store_features(work: Path, numbers: tuple[int, ...]) -> FeaturesRef:
    pages = [page for page in scripted_pages(PAGES, failed=FAILED, blank=BLANK) if page.page_number in numbers]
    data = features_bytes(pages)
    uri = f"features/{numbers[0]}.safetensors"
    storage.write_bytes(str(work / uri), data)
    return FeaturesRef(uri=uri, sha256=storage.sha256_bytes(data), size_bytes=len(data), page_numbers=numbers)


def request(
    work: Path, chunk: ChunkRef, features: list[FeaturesRef], previous: StateRef | None, reading: ReadingConfig
) -> DecodeRequest:
    name = f"doc/{chunk.chunk_number}"
    return DecodeRequest(name, reading, chunk, str(work), tuple(features), previous)


def decode_all(work: Path, chunk_pages: int, reading: ReadingConfig) -> list[ChunkCheckpoint]:
    chunks = plan_chunks(range(1, PAGES + 1), chunk_pages)
    features = [store_features(work, chunk.page_numbers) for chunk in chunks]
    done: list[ChunkCheckpoint] = []
    for index, chunk in enumerate(chunks):
        previous = done[-1].state if done else None
        done.append(decode_chunk(request(work, chunk, features[index:], previous, reading), ScriptedModel()))
    return done


def pages_of(work: Path, checkpoints: list[ChunkCheckpoint]) -> list[PageResult]:
    files = [(work / checkpoint.result_uri).read_bytes() for checkpoint in checkpoints]
    return [page for data in files for page in ChunkResult.model_validate_json(data).pages]


@pytest.mark.parametrize("lookahead", [0, 2])
def test_chunks_of_1_4_and_all_pages_give_the_same_pages_and_state(lookahead: int, tmp_path: Path) -> None:
    reading = ReadingConfig(sr_swa=SrSwaConfig(window_pages=4, lookahead_pages=lookahead, reference_pages=3))
    done = {size: decode_all(tmp_path / str(size), size, reading) for size in (1, 4, PAGES)}
    pages = {size: pages_of(tmp_path / str(size), checkpoints) for size, checkpoints in done.items()}
    assert [page.page_number for page in pages[1]] == list(range(1, PAGES + 1))
    assert pages[1] == pages[4] == pages[PAGES]
    assert len({checkpoints[-1].state.sha256 for checkpoints in done.values()}) == 1
    assert {page.page_number for page in pages[1] if page.status is PageStatus.FAILED} == set(FAILED)
    assert {page.page_number for page in pages[1] if page.status is PageStatus.BLANK} == set(BLANK)


@pytest.mark.parametrize("damage", ["bit flip", "truncated"])
def test_a_damaged_state_is_refused(damage: str, tmp_path: Path) -> None:
    reading = ReadingConfig()
    first = decode_all(tmp_path, PAGES, reading)[0]
    path = tmp_path / first.state.uri
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data if damage == "bit flip" else data[:-1])
    chunk = plan_chunks(range(1, 2), 1)[0]
    features = [store_features(tmp_path, (1,))]
    with pytest.raises(BrokenChecksum):
        decode_chunk(request(tmp_path, chunk, features, first.state, reading), ScriptedModel())


def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    reading = ReadingConfig()
    first = decode_all(tmp_path, PAGES, reading)[0]
    chunk, features = plan_chunks(range(1, 2), 1)[0], [store_features(tmp_path, (1,))]
    other = ScriptedModel(fingerprint="another")
    with pytest.raises(WrongModel, match="another"):
        decode_chunk(request(tmp_path, chunk, features, first.state, reading), other)


def test_a_missing_state_is_refused(tmp_path: Path) -> None:
    gone = StateRef(uri="states/gone", sha256="0" * 64, size_bytes=1, next_page_number=2)
    chunk, features = plan_chunks(range(1, 2), 1)[0], [store_features(tmp_path, (1,))]
    with pytest.raises(BrokenChecksum, match="gone"):
        decode_chunk(request(tmp_path, chunk, features, gone, ReadingConfig()), ScriptedModel())
