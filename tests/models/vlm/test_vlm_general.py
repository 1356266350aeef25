"""Checkpoints of other families: saved, loaded and read as a user's would be, tiny and with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.hypotheses import hypothesis_line
from support.letter_tokenizer import letter_tokenizer
from support.printed import PROSE, print_page
from support.tiny_families import FAMILIES, tiny_family

from data_contracts.config import ReadingConfig, SrSwaConfig, VlmConfig
from data_contracts.errors import ModelUnavailable
from data_contracts.result import PageStatus
from models.sr_swa.context import AttentionContext
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.pages import EncodedPage, PageImage
from models.vlm.general import AROUND_PAGE, load_vision_language
from models.vlm.places import aligned, placed_lines
from models.vlm.reader import VlmReader
from models.zoo import load_model

MARKS = ["<s>", "</s>", "<unk>", "<page>", "<img>", "</img>", "<fake_token_around_image>", "<global-img>"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz .,:\n"]
PAGE_ID = MARKS.index("<page>")
CHAT = (
    "<s>{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<page>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}:"
)
WITHOUT_TEMPLATE = ("got_ocr2", "deepseek_ocr2")
VIEW_PX = 84
ALONE = SrSwaConfig(window_pages=1, max_window_pages=1, top_k=0, tail_tokens=8)
CONFIG = SrSwaConfig(window_pages=2, max_window_pages=2, top_k=1, reference_tokens=2, tail_tokens=8)


def pixels_processor(family: str) -> Any:
    """Return the family's own image processor, with small pictures where it has a size of its own."""
    import transformers.models as families

    square, edge = {"height": 64, "width": 64}, {"longest_edge": 64}
    if family in ("qwen2_5_vl", "glm_ocr"):
        return families.qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil()
    if family == "paddleocr_vl":
        return families.paddleocr_vl.image_processing_pil_paddleocr_vl.PaddleOCRVLImageProcessorPil(min_pixels=784)
    if family == "got_ocr2":
        return families.got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil(size=square)
    if family == "deepseek_ocr2":
        return families.deepseek_ocr2.image_processing_pil_deepseek_ocr2.DeepseekOcr2ImageProcessorPil()
    if family == "smolvlm":
        kind = families.smolvlm.image_processing_pil_smolvlm.SmolVLMImageProcessorPil
    else:
        kind = families.idefics3.image_processing_pil_idefics3.Idefics3ImageProcessorPil
    return kind(size=edge, max_image_size=edge)


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as transformers saves it."""
    family = request.param
    folder: Path = tmp_path_factory.mktemp(family)
    model = tiny_family(family)
    model.config.image_token_id = PAGE_ID
    model.generation_config.eos_token_id = 1
    model.save_pretrained(folder)
    letter_tokenizer(MARKS, LETTERS, None if family in WITHOUT_TEMPLATE else CHAT).save_pretrained(folder)
    pixels_processor(family).save_pretrained(folder)
    return folder


def config(folder: Path, **changes: Any) -> VlmConfig:
    return VlmConfig(
        **{"model_path": str(folder), "device": "cpu", "max_new_tokens": 16, "view_px": VIEW_PX, **changes}
    )


@pytest.fixture(scope="module")
def reader(checkpoint: Path) -> VlmReader:
    return load_vision_language(config(checkpoint), lambda page: "")


def page_image(page_number: int, height_px: int = 90, width_px: int = 60) -> PageImage:
    draw = np.random.default_rng(page_number)
    return PageImage(page_number, draw.integers(0, 255, (height_px, width_px, 3), dtype=np.uint8), 100.0)


def stock_logits(folder: Path, reader: VlmReader, image: PageImage) -> torch.Tensor:
    """Return what the unmodified model says behind the page and the prompt, fed with pixels and tokens."""
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    pages: Any = reader._adapter
    page = reader.encode_visual(image)
    assert page.features is not None
    rules, count = reader._rules, len(page.features)
    ids = torch.tensor([[*rules.sink_ids, *rules.lead_ids, *[PAGE_ID] * count, *rules.prompt_ids]])
    inputs = {name: value for name, value in pages._inputs(image.pixels).items() if name in pages._asked_of_tower}
    first, behind = len(rules.sink_ids) + len(rules.lead_ids), ids.shape[1] - len(rules.prompt_ids)
    places = torch.arange(ids.shape[1])
    places[behind:] += len(rules.sink_ids) + reader.geometry.page_tokens - behind  # behind a page of the largest size
    residual = pages.residual_positions(page)
    if residual is None:
        inputs["position_ids"] = places[None]
    else:
        axes = places.expand(3, -1).clone()
        axes[:, first:behind] += residual
        inputs["position_ids"] = axes[:, None]
    with torch.no_grad():
        return model(input_ids=ids, **inputs).logits[0, -1]


@pytest.mark.parametrize("sink_tokens", [None, 1])
@pytest.mark.parametrize("shape", [(90, 60), (40, 80)])
def test_a_page_is_seen_as_the_unmodified_model_sees_it(
    checkpoint: Path, sink_tokens: int | None, shape: tuple[int, int]
) -> None:
    reader = load_vision_language(config(checkpoint, sink_tokens=sink_tokens), lambda page: "")
    image = page_image(1, *shape)
    context = AttentionContext(reader.geometry, ALONE)
    context.begin_page(1)
    context.window.admit(reader.prefill(reader.encode_visual(image), context))
    prompt = reader.driver.embed_ids(reader._rules.prompt_ids)[None]
    ours = reader.driver.forward(prompt, [context.open_prompt(prompt.shape[1])]).logits[0, -1]
    wanted = stock_logits(checkpoint, reader, image)
    assert wanted.std() > 0.1
    assert (ours - wanted).abs().max() <= 1e-4


def test_a_document_is_read_page_by_page_with_constant_memory(reader: VlmReader) -> None:
    decoder = ContinuousDecoder(reader, CONFIG)
    results = list(decoder.decode(reader.encode_visual(page_image(number)) for number in range(1, 6)))
    assert [result.page_number for result in results] == [1, 2, 3, 4, 5]
    assert any(result.lines for result in results)  # random weights end some pages at once
    assert len({result.metrics.live_kv_bytes for result in results[1:]}) == 1


def test_the_prompt_has_the_family_s_marks_around_the_page(checkpoint: Path, reader: VlmReader) -> None:
    tokenizer = letter_tokenizer(MARKS, LETTERS)
    before, after = AROUND_PAGE.get(checkpoint.name.rstrip("0123456789"), ("", ""))
    rules = reader._rules
    assert tokenizer.decode([*rules.sink_ids, *rules.lead_ids]).endswith(before)
    assert tokenizer.decode(list(rules.prompt_ids)).startswith(after)


def test_a_checkpoint_without_image_settings_is_refused_with_a_remedy(checkpoint: Path, tmp_path: Path) -> None:
    for file in checkpoint.iterdir():
        if "processor" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ModelUnavailable, match="image settings"):
        load_vision_language(config(tmp_path), lambda page: "")


def test_the_zoo_joins_it_with_a_detector_that_says_where_lines_stand(checkpoint: Path) -> None:
    model = load_model(ReadingConfig(model="vision-language", vlm=config(checkpoint)))
    page = model.encode_visual(PageImage(1, print_page(PROSE[:3]), 100.0))
    assert (len(page.lines), page.features is None) == (3, False)
    (result,) = ContinuousDecoder(model, CONFIG).decode([page])
    assert result.status is not PageStatus.BLANK


@pytest.mark.parametrize(
    ("written", "seen", "places"),
    [
        (["one line", "another"], ["one lime", "anothcr"], [0, 1]),
        (["new", "one line"], ["one lime"], [None, 0]),
        (["one line"], ["stamp", "one lime", "5"], [1]),
        (["b", "a"], ["a", "b"], [None, 0]),
        ([], ["a"], []),
        (["a"], [], [None]),
    ],
)
def test_lines_are_paired_in_order_with_what_reads_most_like_them(
    written: list[str], seen: list[str], places: list[int | None]
) -> None:
    assert aligned(written, seen) == places


def test_a_line_that_nobody_saw_gets_the_room_between_its_neighbours() -> None:
    lines = (hypothesis_line("first line", top_px=100), hypothesis_line("third line", top_px=300))
    page = EncodedPage(1, 800, 1000, 100.0, lines=lines)
    first, second, third = placed_lines("first line\nsecond\nthird line", ["first line", "third line"], page, 0.5)
    assert (first.box.top, third.box.top) == (100, 300)
    assert (second.box.left, second.box.top, second.box.right, second.box.bottom) == (0, 140, 800, 300)
