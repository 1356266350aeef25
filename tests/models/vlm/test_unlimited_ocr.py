"""Loading, as transformers saves and loads it: a tiny random checkpoint in the real format, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.letter_tokenizer import letter_tokenizer
from support.tiny_vlm import tiny_unlimited_ocr

from data_contracts.config import ReadingConfig, SrSwaConfig, VlmConfig
from data_contracts.errors import ModelUnavailable
from data_contracts.result import BlankReason, PageStatus
from models.features import features_bytes, read_features
from models.sr_swa.continuous import COMPLETE, ContinuousDecoder
from models.sr_swa.pages import PageImage
from models.unlimited_ocr import load_unlimited_ocr
from models.vlm import loading
from models.vlm.detections import regions
from models.vlm.pixels import PageView
from models.vlm.reader import VlmReader
from models.vlm.writer import TOKEN_CAP
from models.zoo import load_model

WORDS = ["<s>", "</s>", "<image>", "<PAGE>", "<|det|>", "<|/det|>", "<unk>"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz .,0123456789[]\n"]
CONFIG = SrSwaConfig(window_pages=2, max_window_pages=2, top_k=1, reference_tokens=2, tail_tokens=8)


def save_checkpoint(folder: Path) -> None:
    """Write a model with random weights and a processor with a vocabulary of letters."""
    vocabulary = {word: index for index, word in enumerate([*WORDS, *LETTERS])}
    model = tiny_unlimited_ocr(vocab_size=len(vocabulary), eos_token_id=1)
    model.config.image_token_id = vocabulary["<image>"]
    model.generation_config.eos_token_id = 1
    model.save_pretrained(folder)
    letter_tokenizer(WORDS, LETTERS).save_pretrained(folder)
    settings = {"image_processor_type": "UnlimitedOcrImageProcessor", "size": {"height": 256, "width": 256}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    save_checkpoint(folder)
    return folder


def config(folder: Path | None, **changes: Any) -> VlmConfig:
    path = None if folder is None else str(folder)
    return VlmConfig(**{"model_path": path, "device": "cpu", "max_new_tokens": 16, **changes})


@pytest.fixture(scope="module")
def reader(checkpoint: Path) -> VlmReader:
    return load_unlimited_ocr(config(checkpoint))


def page_image(page_number: int) -> PageImage:
    draw = np.random.default_rng(page_number)
    return PageImage(page_number, draw.integers(0, 255, (90, 60, 3), dtype=np.uint8), 100.0)


def test_a_saved_checkpoint_is_loaded_and_reads_pages_from_pixels(reader: VlmReader) -> None:
    encoded = [reader.encode_visual(page_image(number)) for number in range(1, 5)]
    assert [tuple(page.features.shape) for page in encoded] == [(21, 32)] * 4
    again = list(read_features(features_bytes(encoded)))  # as the encode task hands them to the decode task
    results = list(ContinuousDecoder(reader, CONFIG).decode(again))
    assert [result.page_number for result in results] == [1, 2, 3, 4]
    assert {result.status for result in results} <= {PageStatus.TEXT, PageStatus.TRUNCATED, PageStatus.FAILED}
    assert all(result.width_px == 60 for result in results)


def test_the_processor_and_the_tower_agree_on_the_tokens_of_a_page(reader: VlmReader) -> None:
    assert reader.geometry.page_tokens == 4 * 5 + 1
    assert reader.geometry.sink_tokens == 1
    assert reader.geometry.prompt_tokens > 5


def test_features_are_a_function_of_the_page_alone(reader: VlmReader) -> None:
    first = reader.encode_visual(page_image(1))
    reader.encode_visual(page_image(2))
    assert torch.equal(reader.encode_visual(page_image(1)).features, first.features)
    assert not torch.allclose(reader.encode_visual(page_image(2)).features, first.features, atol=1e-3)


def scripted(reader: VlmReader, monkeypatch: pytest.MonkeyPatch, text: str, ids: Callable[[str], list[int]]) -> Any:
    """Read one page with a head that writes ``text`` whatever the decoder thinks."""
    driver = reader.driver
    vocabulary = driver.embed.weight.shape[0]
    coming = iter(ids(text))

    def head(hidden: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros((*hidden.shape[:2], vocabulary))
        logits[..., next(coming)] = 9.0
        return logits

    monkeypatch.setattr(driver, "head", head)
    page = reader.encode_visual(page_image(1))
    return next(ContinuousDecoder(reader, CONFIG).decode([page]))


def letter_ids(text: str) -> list[int]:
    """``{name}`` stands for a special token; the first output is chosen by nobody."""
    vocabulary = {word: index for index, word in enumerate([*WORDS, *LETTERS])}
    found, rest = [vocabulary["a"]], text
    while rest:
        word = next((word for word in WORDS if rest.startswith(word)), rest[0])
        found.append(vocabulary[word])
        rest = rest.removeprefix(word)
    return found


@pytest.mark.parametrize("end", ["</s>", "<PAGE>"])
def test_boxes_become_lines_in_pixels_and_either_end_completes_a_page(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    reader = load_unlimited_ocr(config(checkpoint, max_new_tokens=80))
    text = f"<|det|>text [0,0,999,500]<|/det|>ab cd\nef<|det|>image [1,2,3,4]<|/det|>{end}"
    result = scripted(reader, monkeypatch, text, letter_ids)
    assert result.stop_reason == COMPLETE
    assert [line.text for line in result.lines] == ["ab cd", "ef"]
    assert result.lines[0].box.right == pytest.approx(60)
    assert result.lines[1].box.top == pytest.approx(90 * 500 / 999 / 2)
    assert result.lines[0].words[1].box.left == pytest.approx(60 * 3 / 5)
    assert 0 < result.lines[0].confidence <= 1


def test_every_page_begins_with_a_forced_page_mark(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = load_unlimited_ocr(config(checkpoint))
    page = reader.encode_visual(page_image(1))
    decoder = ContinuousDecoder(reader, CONFIG)
    list(decoder.decode([page]))
    written = list(decoder.context.tail.recent_ids)
    assert not written or written[0] == WORDS.index("<PAGE>")
    result = scripted(reader, monkeypatch, "ab</s>", letter_ids)
    assert result.text == "ab"


def test_a_page_that_reaches_its_cap_is_truncated_never_complete(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = load_unlimited_ocr(config(checkpoint))
    result = scripted(reader, monkeypatch, "abcdefghijklmnopqrstuvwxyz" * 2, letter_ids)
    assert result.status is PageStatus.TRUNCATED
    assert result.stop_reason == TOKEN_CAP
    assert result.text == "abcdefghijklmno"  # 16 outputs, the forced page mark among them


@pytest.mark.parametrize("sink_tokens", [0, 1])
def test_the_size_of_the_sink_can_be_chosen(checkpoint: Path, sink_tokens: int) -> None:
    reader = load_unlimited_ocr(config(checkpoint, sink_tokens=sink_tokens))
    assert reader.geometry.sink_tokens == sink_tokens
    assert reader.geometry.page_tokens == 21 + 1 - sink_tokens  # what is no sink stands before each page
    result = next(ContinuousDecoder(reader, CONFIG).decode([reader.encode_visual(page_image(1))]))
    assert result.page_number == 1


def test_the_fingerprint_tells_weights_and_types_apart(checkpoint: Path, tmp_path: Path, reader: VlmReader) -> None:
    half = load_unlimited_ocr(config(checkpoint, dtype="bfloat16"))
    assert half.fingerprint != reader.fingerprint
    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-5] ^= 1
    weights.write_bytes(data)
    assert load_unlimited_ocr(config(tmp_path)).fingerprint != reader.fingerprint


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="hf download baidu/Unlimited-OCR"):
        load_unlimited_ocr(config(tmp_path))
    with pytest.raises(ModelUnavailable, match="neither a folder nor in the local cache"):
        load_unlimited_ocr(config(tmp_path / "nothing"))


def test_a_checkpoint_without_all_weights_is_refused_not_filled_with_noise(checkpoint: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    dropped = next(name for name in weights if "self_attn.q_proj" in name)
    del weights[dropped]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelUnavailable, match="1 weights of the model are not in"):
        load_unlimited_ocr(config(tmp_path))


def test_a_damaged_weight_file_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    with pytest.raises(ModelUnavailable, match=r"damaged|cannot be loaded"):
        load_unlimited_ocr(config(tmp_path))


def test_a_missing_gpu_says_what_this_machine_has(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelUnavailable, match=r"no cuda device.*sees.*cpu"):
        load_unlimited_ocr(config(checkpoint, device="cuda"))


def test_weights_larger_than_free_memory_are_refused_before_they_are_read(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "free_bytes", lambda device: 1000)
    with pytest.raises(ModelUnavailable, match=r"0\.0 GB are free on cpu"):
        load_unlimited_ocr(config(checkpoint))


def test_another_version_of_transformers_is_refused(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.setattr(transformers, "__version__", "5.1.0")
    with pytest.raises(ModelUnavailable, match=r"pip install transformers==5\.23\.0"):
        load_unlimited_ocr(config(checkpoint))


def test_a_tag_that_was_never_finished_costs_no_text() -> None:
    found = regions("before<|det|>text [1,2,3,4<|/det|>kept<|det|>title [9, 8, 2, 1200]<|/det|>\n two  words \n\n")
    assert [region.lines for region in found] == [("before",), ("kept",), ("two words",)]
    assert found[1].corners == (0, 0, 999, 999)
    assert found[2].corners == (2, 8, 9, 999)  # corners the right way round, within the page


def test_a_page_is_centred_on_grey_and_a_small_view_is_filled() -> None:
    pixels = np.full((80, 40, 3), 255, dtype=np.uint8)
    view = PageView(side_px=1000)(pixels)
    assert view.shape == (1, 3, 1000, 1000)
    assert view[0, 0, 500, 500] == 1
    assert view[0, 0, 500, 10] == pytest.approx(127 / 127.5 - 1)
    assert view[0, 0, 500, 251] == 1
    assert PageView(side_px=200)(pixels).min() == 1


@pytest.mark.skipif(find_spec("torchvision") is None, reason="not applicable: torchvision is not installed")
def test_a_page_looks_as_transformers_itself_makes_it() -> None:
    from PIL import Image
    from transformers import UnlimitedOcrImageProcessor

    pixels = np.random.default_rng(3).integers(0, 255, (15, 10, 3), dtype=np.uint8).repeat(40, 0).repeat(40, 1)
    for side_px in (256, 1024):
        stock = UnlimitedOcrImageProcessor(size={"height": side_px, "width": side_px})
        wanted = stock(images=[Image.fromarray(pixels)], crop_to_patches=False, return_tensors="pt")["pixel_values"]
        assert (PageView(side_px)(pixels) - wanted).abs().mean() < 0.001


def test_the_zoo_joins_the_large_model_with_the_encoder_that_turns_pages_and_finds_blank_ones(checkpoint: Path) -> None:
    reading = ReadingConfig(model="unlimited-ocr", vlm=config(checkpoint, draft_tokens=4), sr_swa=CONFIG)
    model = load_model.__wrapped__(reading)
    blank = model.encode_visual(PageImage(1, np.full((700, 500, 3), 245, dtype=np.uint8), 100.0))
    assert blank.blank_reason is BlankReason.EMPTY
    assert blank.features is None
    page = model.encode_visual(PageImage(2, printed_page(), 100.0))
    assert page.features is not None
    assert page.lines
    results = list(ContinuousDecoder(model, CONFIG).decode([blank, page]))
    assert results[0].status is PageStatus.BLANK
    assert results[1].status is not PageStatus.BLANK
    assert "compact" in model.fingerprint
    assert "unlimited-ocr" in model.fingerprint


def printed_page() -> Any:
    """A page with three words in large type."""
    import cv2

    pixels = np.full((700, 900, 3), 250, dtype=np.uint8)
    for line, text in enumerate(("Reading", "many", "pages")):
        cv2.putText(pixels, text, (80, 180 + 180 * line), cv2.FONT_HERSHEY_SIMPLEX, 3.5, (10, 10, 10), 8)
    return pixels
