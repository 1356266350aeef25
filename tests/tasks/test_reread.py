"""Pages read again from a kept state find the memory that one run over everything would have given them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from support.fakes import ScriptedModel, scripted_pages

from data_contracts.config import ReadingConfig, SrSwaConfig
from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef, StateRef
from data_contracts.errors import BrokenChecksum
from data_contracts.patch import PagePatch
from data_contracts.result import ChunkCheckpoint, ChunkResult, PageResult, PageStatus
from data_contracts.step_request import DecodeRequest
from models.features import features_bytes
from models.sr_swa.continuous import ContinuousDecoder
from tasks import storage
from tasks.decode import decode_chunk
from tasks.patches import PatchStore
from tasks.plan import plan_chunks
from tasks.reread import ReadChunk, Replay, plan_replays, reread

PAGES, CHUNK_PAGES = 20, 4
LOST = (7, 14)
CHUNKS = plan_chunks(range(1, PAGES + 1), CHUNK_PAGES)
DOCUMENT = DocumentRef(document_id="book-0", uri="book", sha256="0", page_count=PAGES, kind="pdf")


def reading_of(lookahead: int = 0) -> ReadingConfig:
    return ReadingConfig(sr_swa=SrSwaConfig(window_pages=4, lookahead_pages=lookahead, reference_pages=3))


def checkpoints_of(work: Path, reading: ReadingConfig) -> list[ChunkCheckpoint]:
    """Read the document with ``LOST`` failed, chunk by chunk."""
    done: list[ChunkCheckpoint] = []
    read_chunk = reading_chunks(work, reading, lost=LOST)
    for chunk in CHUNKS:
        to_the_end = tuple(range(chunk.page_numbers[0], PAGES + 1))
        done.append(read_chunk(chunk, to_the_end, done[-1].state if done else None))
    return done


def reading_chunks(
    work: Path, reading: ReadingConfig, lost: Sequence[int] = (), isolated: Mapping[int, str] = MappingProxyType({})
) -> ReadChunk:
    """Return what reads a chunk with the scripted model; pages ``lost`` cannot be rendered, ``isolated`` hang."""

    def read_chunk(chunk: ChunkRef, seen: tuple[int, ...], previous: StateRef | None) -> ChunkCheckpoint:
        data = features_bytes(scripted_pages(seen[-1], seen[0], failed=lost))
        sha256, name = storage.sha256_bytes(data), f"chunk-{chunk.chunk_number}-of-{len(seen)}"
        storage.write_bytes(str(work / name), data)
        features = FeaturesRef(uri=name, sha256=sha256, size_bytes=len(data), page_numbers=seen)
        left_out = {number: reason for number, reason in isolated.items() if number in chunk.page_numbers}
        request = DecodeRequest(name, reading, chunk, str(work), (features,), previous, isolated=left_out)
        return decode_chunk(request, ScriptedModel())

    return read_chunk


def whole_run(reading: ReadingConfig, failed: Sequence[int] = ()) -> dict[int, PageResult]:
    decoder = ContinuousDecoder(ScriptedModel(), reading.sr_swa, config_sha256=reading.sha256)
    return {page.page_number: page for page in decoder.decode(scripted_pages(PAGES, failed=failed))}


def read_again(
    work: Path,
    reading: ReadingConfig,
    is_kept: Callable[[int], bool],
    lost: Sequence[int] = (),
    isolated: Mapping[int, str] = MappingProxyType({}),
) -> dict[int, PageResult]:
    checkpoints = checkpoints_of(work, reading)
    read_chunk = reading_chunks(work, reading, lost, isolated)
    return {
        page.page_number: page
        for replay in plan_replays(CHUNKS, LOST, is_kept)
        for again in reread(replay, checkpoints, LOST, reading.sr_swa.lookahead_pages, read_chunk)
        for page in ChunkResult.model_validate_json((work / again.result_uri).read_bytes()).pages
        if page.page_number in replay.page_numbers
    }


@pytest.mark.parametrize("lookahead", [0, 2])
def test_without_kept_states_one_replay_reads_the_pages_as_an_undisturbed_run(tmp_path: Path, lookahead: int) -> None:
    reading = reading_of(lookahead)
    again = read_again(tmp_path, reading, is_kept=lambda index: False)
    undisturbed = whole_run(reading)
    assert again == {number: undisturbed[number] for number in LOST}


def test_from_kept_states_each_page_finds_the_memory_of_then(tmp_path: Path) -> None:
    reading = reading_of()
    again = read_again(tmp_path, reading, is_kept=lambda index: True)
    assert again[7] == whole_run(reading, failed=[14])[7]
    assert again[14] == whole_run(reading, failed=[7])[14]


def test_a_page_that_fails_again_fails_again(tmp_path: Path) -> None:
    again = read_again(tmp_path, reading_of(), is_kept=lambda index: False, lost=[7])
    assert [page.status for page in again.values()] == [PageStatus.FAILED, PageStatus.TEXT]


def test_a_page_lost_again_fails_with_the_reason_and_the_others_are_read_without_it(tmp_path: Path) -> None:
    reading = reading_of()
    again = read_again(tmp_path, reading, is_kept=lambda index: False, isolated={7: "it hangs"})
    assert (again[7].status, again[7].error) == (PageStatus.FAILED, "it hangs")
    assert again[14] == whole_run(reading, failed=[7])[14]


def test_memory_that_cannot_be_brought_back_is_refused(tmp_path: Path) -> None:
    reading = reading_of()
    checkpoints = checkpoints_of(tmp_path, reading)
    replay = Replay(0, 3, (14,))
    with pytest.raises(BrokenChecksum, match="pages 5-8 no longer lead"):
        list(reread(replay, checkpoints, (14,), 0, reading_chunks(tmp_path, reading)))


def test_a_page_lost_on_the_way_is_named_as_what_stands_in_the_way(tmp_path: Path) -> None:
    reading = reading_of()
    checkpoints = checkpoints_of(tmp_path, reading)
    read_chunk = reading_chunks(tmp_path, reading, LOST, {13: "it hangs. Run again."})
    with pytest.raises(BrokenChecksum, match=r"page 13 .*: it hangs\. Run again\. Name it as well"):
        list(reread(Replay(3, 3, (14,)), checkpoints, (14,), 0, read_chunk))


@pytest.mark.parametrize(
    ("kept", "pages", "expected"),
    [
        ((), {79, 83}, [(0, 5, (79, 83))]),
        ((3,), {79, 83}, [(4, 5, (79, 83))]),
        ((3, 4), {79, 83}, [(4, 5, (79, 83))]),
        ((0, 1, 2, 3, 4, 5), {2, 79}, [(0, 0, (2,)), (4, 4, (79,))]),
        ((0,), {2, 79}, [(0, 4, (2, 79))]),
        ((3,), {100}, [(4, 6, (100,))]),
    ],
)
def test_replays_begin_at_the_nearest_kept_state_and_go_on_where_none_is_nearer(
    kept: tuple[int, ...], pages: set[int], expected: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    chunks = plan_chunks(range(1, 101), 16)
    replays = plan_replays(chunks, pages, lambda index: index in kept)
    assert [(replay.first_chunk, replay.last_chunk, replay.page_numbers) for replay in replays] == expected


def test_a_page_read_alone_knows_no_other(tmp_path: Path) -> None:
    reading = reading_of()
    alone = reading_chunks(tmp_path, reading)(ChunkRef(chunk_number=1, page_numbers=(7,)), (7,), None)
    (page,) = ChunkResult.model_validate_json((tmp_path / alone.result_uri).read_bytes()).pages
    assert page != whole_run(reading)[7]
    (only,) = ContinuousDecoder(ScriptedModel(), reading.sr_swa).decode(scripted_pages(7, 7))
    assert page == only


def patch(page: PageResult, memory: str | None, *, remembered: bool = True) -> PagePatch:
    return PagePatch(
        page=page,
        replaced_status=PageStatus.FAILED,
        reading=reading_of(),
        named=True,
        is_remembered=remembered,
        memory_sha256=memory,
    )


def test_patches_replace_pages_and_mark_those_read_in_another_memory(tmp_path: Path) -> None:
    checkpoints = checkpoints_of(tmp_path, reading_of())
    chunks = [ChunkResult.model_validate_json((tmp_path / c.result_uri).read_bytes()) for c in checkpoints]
    good = whole_run(reading_of())
    store = PatchStore(str(tmp_path), DOCUMENT, reading_of())
    assert [store.apply(chunk) for chunk in chunks] == chunks
    assert store.manifest_fields([]) == {}

    store.write(patch(good[7], ""))
    again = PatchStore(str(tmp_path), DOCUMENT, reading_of())
    patched = [page for chunk in chunks for page in again.apply(chunk).pages]
    assert [page.page_number for page in patched if page == good[page.page_number]][:7] == [1, 2, 3, 4, 5, 6, 7]
    assert patched[13].status is PageStatus.FAILED
    assert again.stale_pages(map(again.apply, chunks)) == [n for n in range(8, 21) if n != 14]

    again.write(patch(good[14], again.memory_before(14)))
    assert again.stale_pages(map(again.apply, chunks)) == [n for n in range(8, 21) if n != 14]
    again.write(patch(good[14], ""))
    assert 14 in again.stale_pages(map(again.apply, chunks)), "it was read before page 7 was there"
    again.write(patch(good[14], None, remembered=False))
    assert 14 not in again.stale_pages(map(again.apply, chunks)), "it was read without memory"
    again = PatchStore(str(tmp_path), DOCUMENT, reading_of(), fresh=True)
    assert [again.apply(chunk) for chunk in chunks] == chunks
    assert PatchStore(str(tmp_path), DOCUMENT, reading_of()).page_numbers == ()


def test_a_document_whose_chunks_are_one_page_each_is_planned_like_any_other() -> None:
    chunks = [ChunkRef(chunk_number=n, page_numbers=(n,)) for n in (1, 5, 9)]
    assert plan_replays(chunks, {5, 9}, lambda index: index == 0) == [Replay(1, 2, (5, 9))]
