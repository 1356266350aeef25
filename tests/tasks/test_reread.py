"""Pages read again from a kept state find the memory that one run over everything would have given them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.fakes import ScriptedModel, scripted_pages

from data_contracts.config import ReadingConfig, SrSwaConfig
from data_contracts.document import ChunkRef, DocumentRef, FeaturesRef
from data_contracts.errors import BrokenChecksum
from data_contracts.patch import PagePatch
from data_contracts.result import ChunkCheckpoint, ChunkResult, PageResult, PageStatus
from models.features import features_bytes
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.pages import EncodedPage, FailedPage
from tasks import storage
from tasks.decode import decode_chunk
from tasks.patches import PatchStore
from tasks.plan import plan_chunks
from tasks.reread import Replay, plan_replays, read_alone, reread

PAGES, CHUNK_PAGES = 20, 4
LOST = (7, 14)
CHUNKS = plan_chunks(range(1, PAGES + 1), CHUNK_PAGES)
DOCUMENT = DocumentRef(document_id="book-0", uri="book", sha256="0", page_count=PAGES, kind="pdf")


def reading_of(lookahead: int = 0) -> ReadingConfig:
    return ReadingConfig(sr_swa=SrSwaConfig(window_pages=4, lookahead_pages=lookahead, reference_pages=3))


def checkpoints_of(work: Path, reading: ReadingConfig) -> list[ChunkCheckpoint]:
    """Read the document with ``LOST`` failed, chunk by chunk."""
    done: list[ChunkCheckpoint] = []
    for chunk in CHUNKS:
        pages = list(scripted_pages(PAGES, chunk.page_numbers[0], failed=LOST))
        data = features_bytes(pages)
        sha256, uri = storage.sha256_bytes(data), f"features-{chunk.chunk_number}"
        storage.write_bytes(str(work / uri), data)
        features = FeaturesRef(uri=uri, sha256=sha256, size_bytes=len(data), page_numbers=chunk.page_numbers)
        previous = done[-1].state if done else None
        done.append(decode_chunk(chunk, [features], ScriptedModel(), reading, previous, str(work), uri))
    return done


def whole_run(reading: ReadingConfig, failed: Sequence[int] = ()) -> dict[int, PageResult]:
    decoder = ContinuousDecoder(ScriptedModel(), reading.sr_swa, config_sha256=reading.sha256)
    return {page.page_number: page for page in decoder.decode(scripted_pages(PAGES, failed=failed))}


def encoding(failed: Sequence[int]) -> Callable[[int], EncodedPage | FailedPage]:
    return {page.page_number: page for page in scripted_pages(PAGES, failed=failed)}.__getitem__


def read_again(
    work: Path, reading: ReadingConfig, is_kept: Callable[[int], bool], lost: Sequence[int] = ()
) -> dict[int, PageResult]:
    checkpoints = checkpoints_of(work, reading)
    replays = plan_replays(CHUNKS, LOST, is_kept)
    return {
        page.page_number: page
        for replay in replays
        for page in reread(replay, CHUNKS, checkpoints, LOST, encoding(lost), ScriptedModel(), reading, str(work))
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


def test_memory_that_cannot_be_brought_back_is_refused(tmp_path: Path) -> None:
    reading = reading_of()
    checkpoints = checkpoints_of(tmp_path, reading)
    replay = Replay(0, 3, (14,))
    with pytest.raises(BrokenChecksum, match="pages 5-8 no longer lead"):
        list(reread(replay, CHUNKS, checkpoints, (14,), encoding(()), ScriptedModel(), reading, str(tmp_path)))


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


def test_a_page_read_alone_knows_no_other() -> None:
    reading = reading_of()
    assert read_alone(encoding(())(7), ScriptedModel(), reading) != whole_run(reading)[7]
    (only,) = ContinuousDecoder(ScriptedModel(), reading.sr_swa).decode([encoding(())(7)])
    assert read_alone(encoding(())(7), ScriptedModel(), reading) == only


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
