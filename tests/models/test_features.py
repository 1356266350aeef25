"""Features go to bytes and back unchanged, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from data_contracts.errors import BrokenChecksum
from data_contracts.result import BlankReason
from models.features import features_bytes, read_features
from models.sr_swa.pages import EncodedLine, EncodedPage, FailedPage

ARRAYS = ("frames", "ctc_ids", "ctc_posteriors", "ctc_frames", "top_ids", "top_posteriors")


def encoded_line(seed: int, frames: int, characters: int) -> EncodedLine:
    draw = np.random.default_rng(seed)
    return EncodedLine(
        quad=((1.5, 2.0), (90.0, 2.25), (90.0, 20.0), (1.5, 19.0)),
        direction="vertical" if seed % 2 else "horizontal",
        frames=draw.normal(size=(frames, 120)).astype(np.float16),
        ctc_ids=draw.integers(1, 18710, characters).astype(np.int32),
        ctc_posteriors=draw.random(characters).astype(np.float32),
        ctc_frames=draw.integers(0, frames, characters).astype(np.int32),
        top_ids=draw.integers(0, 18710, (frames, 8)).astype(np.int32),
        top_posteriors=draw.random((frames, 8)).astype(np.float16),
        frame_px=3.25,
    )


@given(shapes=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5)), max_size=4))
def test_a_page_survives_the_way_through_bytes(shapes: list[tuple[int, int]]) -> None:
    lines = tuple(encoded_line(seed, *shape) for seed, shape in enumerate(shapes))
    page = EncodedPage(7, 100, 200, 300.0, 90, lines, None if lines else BlankReason.SOLID)
    (read,) = read_features(features_bytes([page]))
    assert isinstance(read, EncodedPage)
    assert (read.page_number, read.width_px, read.height_px, read.dpi, read.rotation) == (7, 100, 200, 300.0, 90)
    assert read.blank_reason == page.blank_reason
    assert len(read.lines) == len(lines)
    for before, after in zip(lines, read.lines, strict=True):
        assert (after.quad, after.direction, after.frame_px) == (before.quad, before.direction, before.frame_px)
        for name in ARRAYS:
            assert getattr(after, name).dtype == getattr(before, name).dtype
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


def test_failed_pages_and_features_of_large_models_keep_their_place() -> None:
    features = torch.arange(6.0).reshape(2, 3)
    pages = [FailedPage(1, "torn", 10, 20, 72.0), EncodedPage(2, 30, 40, 72.0, features=features)]
    failed, encoded = read_features(features_bytes(pages))
    assert failed == pages[0]
    assert isinstance(encoded, EncodedPage)
    assert encoded.features is not None
    assert torch.equal(encoded.features, features)


def test_equal_pages_give_equal_bytes() -> None:
    pages = [EncodedPage(n, 10, 10, 72.0, lines=(encoded_line(n, 4, 2),)) for n in range(1, 12)]
    assert len({features_bytes(pages) for _ in range(8)}) == 1


@pytest.mark.parametrize("damage", ["truncated", "not ours", "empty"])
def test_what_is_no_features_file_is_refused(damage: str) -> None:
    data = features_bytes([EncodedPage(1, 10, 10, 72.0, lines=(encoded_line(1, 4, 2),))])
    bad = {"truncated": data[:-5], "not ours": b"%PDF-1.7 and so on", "empty": b""}[damage]
    with pytest.raises(BrokenChecksum, match="damaged"):
        list(read_features(bad))
