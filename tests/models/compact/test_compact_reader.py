from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from support.printed import COLUMNS, PROSE, print_columns, print_page

from data_contracts.config import CompactConfig, SrSwaConfig
from data_contracts.errors import ModelUnavailable
from data_contracts.result import BlankReason
from models.compact.onnx_weights import BLANK_CLASS
from models.compact.reader import CompactModel
from models.compact.rescore.page_memory import MEMORY_CONFIDENCE, PAGE_TOKENS, UNLISTED_RARITY, page_block
from models.compact.words.split import WordSpan
from models.compact.words.word_tokens import word_picture
from models.features import features_bytes, read_features
from models.sr_swa.context import AttentionContext
from models.sr_swa.pages import EncodedLine, EncodedPage, PageImage


@pytest.fixture(scope="module")
def model() -> CompactModel:
    return CompactModel(CompactConfig())


@pytest.fixture(scope="module")
def prose(model: CompactModel) -> EncodedPage:
    return model.encode_visual(PageImage(7, print_page(PROSE), 150.0))


@pytest.fixture
def context(model: CompactModel) -> AttentionContext:
    return AttentionContext(model.geometry, SrSwaConfig(window_pages=1, gate_uncertainty=0.0))


def written_line(text_ids: list[int], posterior: float = 0.99) -> EncodedLine:
    """Return a made-up line whose characters stand on every second frame."""
    frames = 2 * len(text_ids) + 1
    return EncodedLine(
        quad=((0, 0), (10.0 * frames, 0), (10.0 * frames, 30), (0, 30)),
        direction="horizontal",
        frames=(np.arange(1, frames + 1)[:, None] * np.ones(120)).astype(np.float16),
        ctc_ids=np.asarray(text_ids, np.int32),
        ctc_posteriors=np.full(len(text_ids), posterior, np.float32),
        ctc_frames=np.arange(1, 2 * len(text_ids), 2, dtype=np.int32),
        top_ids=np.zeros((frames, 8), np.int32),
        top_posteriors=np.zeros((frames, 8), np.float16),
        frame_px=10.0,
    )


def page_of(*lines: EncodedLine, page_number: int = 1) -> EncodedPage:
    return EncodedPage(page_number, 800, 600, 150.0, lines=lines)


ALPHABET = ("", *"abcdefghijklmnopqrstuvwxyz,", " ")
SPACE = len(ALPHABET) - 1


def ids_of(text: str) -> list[int]:
    return [ALPHABET.index(character) for character in text]


def test_a_printed_page_comes_back_line_by_line(
    model: CompactModel, prose: EncodedPage, context: AttentionContext
) -> None:
    assert (prose.page_number, prose.rotation, prose.blank_reason) == (7, 0, None)
    lines = read(model, prose, context)
    assert [line.text for line in lines] == list(PROSE)
    assert all(0.9 < line.confidence <= 1 for line in lines)
    assert all(line.direction == "horizontal" and line.read_by == "ctc" for line in lines)


def test_each_word_lies_over_its_own_ink(model: CompactModel, prose: EncodedPage, context: AttentionContext) -> None:
    dark = print_page(PROSE)[:, :, 0] < 128
    for line in read(model, prose, context):
        assert [word.text for word in line.words] == line.text.split()
        for word in line.words:
            box = word.box
            inside = dark[int(box.top) : int(box.bottom) + 1, int(box.left) : int(box.right) + 1]
            columns = np.flatnonzero(inside.any(axis=0))
            assert len(columns) > 0.6 * inside.shape[1] or len(word.text) < 4, word
        boxes = [word.box for word in line.words]
        assert all(left.right <= right.left + 0.01 for left, right in pairwise(boxes))


def test_encoding_twice_gives_the_same_bytes(model: CompactModel, prose: EncodedPage) -> None:
    again = CompactModel(CompactConfig(threads=1)).encode_visual(PageImage(7, print_page(PROSE), 150.0))
    assert features_bytes([again]) == features_bytes([prose])


def test_a_page_reads_the_same_after_a_round_through_storage(
    model: CompactModel, prose: EncodedPage, context: AttentionContext
) -> None:
    (stored,) = read_features(features_bytes([prose]))
    assert isinstance(stored, EncodedPage)
    assert read(model, stored, context) == read(model, prose, context)


def test_a_page_on_its_head_is_read_upright(model: CompactModel, context: AttentionContext) -> None:
    page = model.encode_visual(PageImage(1, np.ascontiguousarray(print_page(PROSE)[::-1, ::-1]), 150.0))
    assert page.rotation == 180
    assert [line.text for line in read(model, page, context)] == list(PROSE)


def test_a_turned_page_has_the_upright_size(model: CompactModel) -> None:
    upright = print_page(PROSE)
    page = model.encode_visual(PageImage(1, np.ascontiguousarray(np.rot90(upright)), 150.0))
    assert page.rotation == 90
    assert (page.height_px, page.width_px) == upright.shape[:2]


def test_chinese_columns_are_read_from_right_to_left(model: CompactModel, context: AttentionContext) -> None:
    page = model.encode_visual(PageImage(1, print_columns(COLUMNS), 150.0))
    lines = read(model, page, context)
    assert [line.text for line in lines] == list(COLUMNS)
    assert all(line.direction == "vertical" and line.joiner == "" for line in lines)
    assert all(2 <= len(word.text) <= 4 for line in lines for word in line.words)


def test_an_empty_page_has_a_reason_and_no_lines(model: CompactModel) -> None:
    page = model.encode_visual(PageImage(1, np.full((900, 600, 3), 250, np.uint8), 150.0))
    assert page.lines == ()
    assert page.blank_reason is BlankReason.EMPTY


def test_noise_is_no_text(model: CompactModel) -> None:
    noise = np.random.default_rng(11).integers(0, 255, (900, 700, 3), dtype=np.uint8)
    assert model.encode_visual(PageImage(1, noise, 150.0)).lines == ()


def test_the_memory_of_a_page_fits_the_geometry_and_holds_its_sure_words(
    model: CompactModel, prose: EncodedPage, context: AttentionContext
) -> None:
    block = model.prefill(prose, context)
    context.make_room()
    context.window.admit(block)
    words = [model_text(model, ids) for ids in block.payload["char_ids"].tolist()]
    assert words[:4] == ["The", "keeper", "climbed", "the"]
    assert "Harlan" in words  # without its full stop
    assert float(block.payload["confidence"].min()) >= MEMORY_CONFIDENCE
    assert block.keys.dtype is torch.float16
    assert block.values.shape == block.keys.shape == (1, 1, len(words), 360)


def test_unsure_words_do_not_enter_the_memory() -> None:
    sure, unsure = written_line(ids_of("keeper")), written_line(ids_of("lamp"), posterior=0.79)
    assert page_block(page_of(sure, unsure), ALPHABET).tokens == 1


def test_a_page_with_more_words_than_fit_keeps_the_rare_ones_in_order() -> None:
    common = [written_line(ids_of("the")) for _ in range(PAGE_TOKENS)]
    rare = [written_line(ids_of("abcdefg")), written_line(ids_of("gfedcba"))]
    block = page_block(page_of(rare[0], *common, rare[1]), ALPHABET)
    assert block.tokens == PAGE_TOKENS
    assert block.payload["char_ids"][0, :7].tolist() == ids_of("abcdefg")
    assert block.payload["char_ids"][-1, :7].tolist() == ids_of("gfedcba")
    assert block.payload["rarity"][0] == UNLISTED_RARITY + 7  # where so many words are English, one that no list has
    assert block.positions.tolist() == list(range(PAGE_TOKENS))


def test_a_picture_is_first_mean_and_last_frame() -> None:
    line = written_line(ids_of("abc"))
    picture = word_picture(line, WordSpan(0, 3))
    assert picture[:120].tolist() == [2] * 120
    assert picture[120:240].tolist() == [4] * 120
    assert picture[240:].tolist() == [6] * 120


def test_a_long_word_is_cut_to_what_a_token_carries() -> None:
    block = page_block(page_of(written_line([1] * 30)), ALPHABET)
    assert block.payload["char_ids"].tolist() == [[1] * 24]


def test_a_page_without_words_leaves_an_empty_block() -> None:
    block = page_block(page_of(written_line([SPACE])), ALPHABET)
    assert block.tokens == 0
    assert block.payload["char_ids"].shape == (0, 24)
    assert block.payload["box"].shape == (0, 4)


def test_a_sure_page_asks_for_nothing(model: CompactModel, prose: EncodedPage) -> None:
    context = AttentionContext(model.geometry, SrSwaConfig(window_pages=1))
    read(model, prose, context)
    assert context.metrics().gate_fired == 0


def test_the_fingerprint_names_weights_device_and_dtype(model: CompactModel) -> None:
    assert model.fingerprint.startswith("compact-")
    assert "/cpu/torch.float16/090f04abcd9d" in model.fingerprint
    assert model.fingerprint == CompactModel(CompactConfig(threads=1)).fingerprint


def test_missing_weights_stop_the_model_at_once(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable):
        CompactModel(CompactConfig(), tmp_path)


def read(model: CompactModel, page: EncodedPage, context: AttentionContext) -> tuple:
    context.begin_page(page.page_number)
    return model.decode(page, context).lines


def model_text(model: CompactModel, ids: list[int]) -> str:
    return model._recognizer.text(index for index in ids if index != BLANK_CLASS)
