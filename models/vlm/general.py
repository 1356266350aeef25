"""Any vision-language model of transformers whose decoder the driver serves, loaded as transformers saves it.

The page is one picture, fitted into a square; the model answers with plain text. It says nothing of places, so each
line of its answer stands where the compact model saw the line that reads most like it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from data_contracts.config import VlmConfig
from data_contracts.result import Line
from models.sr_swa.pages import EncodedPage, PageImage
from models.vlm.driver import DecoderDriver
from models.vlm.loading import choose_place, fingerprint, load_image_processor, load_pretrained, local_folder
from models.vlm.places import placed_lines
from models.vlm.prompt import Prompt
from models.vlm.reader import ReaderSetup, VlmReader
from models.vlm.writer import rules_of

ALGORITHM = "vision-language-1"
"""To be raised with every change that can change a reading."""
REMEDY = (
    "Download a checkpoint once (hf download NAME --local-dir DIR) and give --model-path DIR, or use --model compact."
)
INSTRUCTIONS = {
    "got_ocr2": "OCR: ",
    "paddleocr_vl": "OCR:",
    "glm_ocr": "Text Recognition:",
    "deepseek_ocr2": "Free OCR.",
}
"""What a family was trained to be asked, by the ``model_type`` of its configuration."""
INSTRUCTION = "Write down all text on this page, line by line, and nothing else."
_FAKE = "<fake_token_around_image>"
AROUND_PAGE = {
    "smolvlm": (f"{_FAKE}<global-img>", _FAKE),
    "idefics3": (f"{_FAKE}<global-img>", _FAKE),
    "got_ocr2": ("<img>", "</img>\n"),
}
"""What a family's processor writes around the picture, beyond the chat template."""
CONVERSATIONS = {
    "got_ocr2": (
        "<|im_start|>system\nYou should follow the instructions carefully and explain your answers in detail.<|im_end|>"
        "<|im_start|>user\n{page}{instruction}<|im_end|><|im_start|>assistant\n"
    ),
}
"""Of families without a chat template."""


class PlainTextPages:
    """A ``PageAdapter``: the model's vision tower on one view of the whole page, its answer as lines of text."""

    def __init__(
        self, model: Any, tokenizer: Any, processor: Any, view_px: int, compact_text: Callable[[EncodedPage], str]
    ) -> None:
        """Bind to a loaded model; ``compact_text`` gives what the compact model read on a page, a line a line."""
        self._model = model
        self._tokenizer = tokenizer
        self._processor = processor
        self._view_px = view_px
        self._compact_text = compact_text
        for tiling in ("do_image_splitting", "crop_to_patches"):
            if hasattr(processor, tiling):
                setattr(processor, tiling, False)
        self._asked_of_tower = signature(model.get_image_features).parameters.keys()

    @torch.inference_mode()
    def encode(self, image: PageImage) -> EncodedPage:
        """Return the page's features [visual tokens, dim] in float32 on the host."""
        inputs = self._inputs(image.pixels)
        pixels = {name: self._on_device(value) for name, value in inputs.items() if name in self._asked_of_tower}
        features = torch.cat([part.flatten(0, -2) for part in self._model.get_image_features(**pixels).pooler_output])
        height_px, width_px = image.pixels.shape[:2]
        return EncodedPage(image.page_number, width_px, height_px, image.dpi, features=features.float().cpu())

    def lines(self, page: EncodedPage, token_ids: Sequence[int], confidences: Sequence[float]) -> tuple[Line, ...]:
        """Return the lines of the answer, each where the compact model saw it; confidence is the mean over the page."""
        text = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        return placed_lines(text, self._compact_text(page).split("\n"), page, float(np.mean(confidences or [0.0])))

    def residual_positions(self, page: EncodedPage) -> torch.Tensor | None:
        """Return what the grid of the page's tokens has beyond their order [axes, tokens]; None with one axis."""
        rope_index = getattr(self._model.model, "get_rope_index", None)
        if rope_index is None:
            return None
        grid = self._inputs(np.full((page.height_px, page.width_px, 3), 255, np.uint8))["image_grid_thw"]
        assert page.features is not None
        count = len(page.features)
        ids = torch.full((1, count), self._model.config.image_token_id)
        positions, _ = rope_index(ids, torch.ones_like(ids), image_grid_thw=grid)
        residual: torch.Tensor = positions[:, 0] - torch.arange(count)
        return residual.to(self._model.device)

    def _inputs(self, pixels: npt.NDArray[np.uint8]) -> Any:
        from PIL import Image

        page = Image.fromarray(pixels)
        page.thumbnail((self._view_px, self._view_px), Image.Resampling.BICUBIC)
        return self._processor(images=[page], return_tensors="pt")

    def _on_device(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(self._model.device, self._model.dtype if value.is_floating_point() else value.dtype)


def load_vision_language(config: VlmConfig, compact_text: Callable[[EncodedPage], str]) -> VlmReader:
    """Return the reader of the checkpoint in ``config.model_path``.

    ``compact_text`` is what another reader reads on a page, a line a line: places of lines, and drafts if configured.

    Raises:
        ModelUnavailable: device, memory, files, version or the decoder's layers do not do; the message says which.
    """
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    place, folder = choose_place(config), local_folder(config.model_path or "", REMEDY)
    model, tokenizer = load_pretrained(folder, AutoModelForImageTextToText, AutoTokenizer, place, REMEDY)
    processor = load_image_processor(folder, REMEDY)
    pages = PlainTextPages(model, tokenizer, processor, config.view_px, compact_text)
    largest = pages.encode(PageImage(1, np.full((config.view_px, config.view_px, 3), 255, dtype=np.uint8), 72.0))
    assert largest.features is not None
    return VlmReader(
        DecoderDriver(model),
        rules_of(prompt_of(model, tokenizer), model, config),
        pages,
        ReaderSetup(fingerprint(folder, place, ALGORITHM), len(largest.features), config.pool_pages),
        drafter=lambda page: tokenizer.encode(compact_text(page), add_special_tokens=False),
    )


def prompt_of(model: Any, tokenizer: Any) -> Prompt:
    """Return what this family expects around a page.

    Raises:
        ModelUnavailable: the page does not stand in it exactly once.
    """
    family = model.config.model_type
    return Prompt.of(
        tokenizer,
        INSTRUCTIONS.get(family, INSTRUCTION),
        model.config.image_token_id,
        around=AROUND_PAGE.get(family, ("", "")),
        conversation=CONVERSATIONS.get(family),
    )
