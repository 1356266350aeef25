"""baidu/Unlimited-OCR behind the ``OcrModel`` protocol, loaded as transformers saves it.

The model was made to read many pages in one go, each answer opened by ``<PAGE>``. Here each page is a question of
its own behind the window: its first output is forced to be ``<PAGE>``, and the page ends with the next ``<PAGE>`` or
with the end of text, whichever the model writes. Source: arXiv 2606.23050 and ``models/unlimited_ocr`` in transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from data_contracts.config import VlmConfig
from data_contracts.result import Line
from models.sr_swa.pages import EncodedPage, PageImage
from models.vlm.detections import OPENING, mean, region_lines, regions
from models.vlm.driver import DecoderDriver
from models.vlm.loading import choose_place, fingerprint, load_pretrained, local_folder
from models.vlm.pixels import PageView
from models.vlm.prompt import Prompt
from models.vlm.reader import ReaderSetup, VlmReader
from models.vlm.writer import rules_of

NAME = "baidu/Unlimited-OCR"
ALGORITHM = "unlimited-ocr-1"
"""To be raised with every change that can change a reading."""
INSTRUCTION = "Multi page parsing."
PAGE_START = "<PAGE>"
REMEDY = f"Download {NAME} once (hf download {NAME} --local-dir DIR) and give --model-path DIR, or use --model compact."


class UnlimitedOcrPages:
    """A ``PageAdapter``: the model's vision tower, on one view of the whole page, and its boxes."""

    def __init__(self, model: Any, tokenizer: Any, view: PageView) -> None:
        """Bind to a loaded model."""
        self._model = model
        self._tokenizer = tokenizer
        self._view = view
        self._opening_id = single_id(tokenizer, OPENING)

    @torch.inference_mode()
    def encode(self, image: PageImage) -> EncodedPage:
        """Return the page's features [visual tokens, dim] in float32 on the host: 273 tokens at 1,024 px."""
        pixels = self._view(image.pixels).to(self._model.device, self._model.dtype)
        (features,) = self._model.get_image_features(pixel_values=pixels).pooler_output
        height_px, width_px = image.pixels.shape[:2]
        return EncodedPage(image.page_number, width_px, height_px, image.dpi, features=features.float().cpu())

    def lines(self, page: EncodedPage, token_ids: Sequence[int], confidences: Sequence[float]) -> tuple[Line, ...]:
        """Return the lines of all regions with text, boxes in page pixels, confidence that of the region's tokens."""
        text = self._tokenizer.decode(list(token_ids), skip_special_tokens=False)
        found = regions(text.replace(PAGE_START, ""))
        trust = self._trust(token_ids, confidences, len(found))
        return tuple(
            line
            for region, confidence in zip(found, trust, strict=True)
            for line in region_lines(region, page.width_px, page.height_px, confidence)
        )

    def residual_positions(self, page: EncodedPage) -> torch.Tensor | None:
        """Return None: the model's positions have one axis."""
        return None

    def _trust(self, token_ids: Sequence[int], confidences: Sequence[float], count: int) -> list[float]:
        """Return the mean probability of each region's tokens; the page's where tags are not tokens of their own."""
        parts: list[list[float]] = [[]]
        for token_id, confidence in zip(token_ids, confidences, strict=True):
            if token_id == self._opening_id:
                parts.append([])
            parts[-1].append(confidence)
        return [mean(part) for part in parts] if len(parts) == count else [mean(confidences)] * count


def load_unlimited_ocr(config: VlmConfig, drafter: Callable[[EncodedPage], str] | None = None) -> VlmReader:
    """Return the reader of ``config.model_path``, or of the model's copy in the local cache.

    ``drafter`` is another reader: a page -> its text.

    Raises:
        ModelUnavailable: device, memory, files or version do not do; the message says which and what helps.
    """
    from transformers import AutoTokenizer, UnlimitedOcrForConditionalGeneration

    place, folder = choose_place(config), local_folder(config.model_path or NAME, REMEDY)
    model, tokenizer = load_pretrained(folder, UnlimitedOcrForConditionalGeneration, AutoTokenizer, place, REMEDY)
    pages = UnlimitedOcrPages(model, tokenizer, PageView.of(folder))
    blank = pages.encode(PageImage(1, np.full((64, 64, 3), 255, dtype=np.uint8), 72.0))
    assert blank.features is not None
    prompt = Prompt.of(tokenizer, INSTRUCTION, model.config.image_token_id)
    page_start = single_id(tokenizer, PAGE_START)
    return VlmReader(
        DecoderDriver(model),
        rules_of(prompt, model, config, () if page_start is None else (page_start,)),
        pages,
        ReaderSetup(fingerprint(folder, place, ALGORITHM), len(blank.features), config.pool_pages),
        drafter=drafter and (lambda page: tokenizer.encode(drafter(page), add_special_tokens=False)),
    )


def single_id(tokenizer: Any, token: str) -> int | None:
    """Return the id of ``token`` if it is one token of the vocabulary."""
    found = tokenizer.convert_tokens_to_ids(token)
    return None if found is None or found == tokenizer.unk_token_id else int(found)
