"""A page as a vision tower takes it: one square view of the whole, as the checkpoint's image settings say.

What transformers does with torchvision for one page without crops, done with torch alone; torchvision is not needed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from data_contracts.errors import ModelUnavailable

WHITE = 255.0
SETTINGS_FILES = ("preprocessor_config.json", "processor_config.json")
"""Where a checkpoint keeps them: a file of their own, or a part named ``image_processor`` of the processor's."""


@dataclass(frozen=True)
class PageView:
    """``side_px`` of the view; a page is centred on ``background`` unless the view is at most ``squash_up_to_px``."""

    side_px: int = 1024
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    background: tuple[float, ...] = (127.0, 127.0, 127.0)
    squash_up_to_px: int = 640

    @classmethod
    def of(cls, folder: Path) -> PageView:
        """Return the view that the checkpoint in ``folder`` was trained with; the model's defaults where it says none.

        Raises:
            ModelUnavailable: the settings cannot be read.
        """
        settings = _settings(folder)
        default = cls()
        try:
            size = settings.get("size", {})
            return cls(
                side_px=int(max(size.get("height", default.side_px), size.get("width", default.side_px))),
                mean=tuple(settings.get("image_mean", default.mean)),
                std=tuple(settings.get("image_std", default.std)),
                background=tuple(settings.get("background_color", default.background)),
                squash_up_to_px=int(settings.get("maximum_pad_value", default.squash_up_to_px)),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise ModelUnavailable(f"the image settings in {folder} are damaged: {error}. Fetch them again.") from error

    def __call__(self, pixels: npt.NDArray[np.uint8]) -> torch.Tensor:
        """Return ``pixels`` [height, width, 3] as float32 [1, 3, side, side], normalised."""
        image = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)[None].float()
        if self.side_px > self.squash_up_to_px:
            scale = self.side_px / max(image.shape[-2:])
            height, width = (round(side * scale) for side in image.shape[-2:])
            image = self._centred(_resized(image, height, width))
        else:
            image = _resized(image, self.side_px, self.side_px)
        return (image / WHITE - _per_channel(self.mean)) / _per_channel(self.std)

    def _centred(self, image: torch.Tensor) -> torch.Tensor:
        height, width = image.shape[-2:]
        square = _per_channel(self.background).expand(1, 3, self.side_px, self.side_px).clone()
        top, left = (self.side_px - height) // 2, (self.side_px - width) // 2
        square[..., top : top + height, left : left + width] = image
        return square


def _resized(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return ``image`` in another size, rounded to whole tones."""
    resized = torch.nn.functional.interpolate(image, (height, width), mode="bicubic", antialias=True)
    return resized.round().clamp(0, WHITE)


def _per_channel(values: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).view(1, -1, 1, 1)


def _settings(folder: Path) -> dict[str, Any]:
    for name in SETTINGS_FILES:
        if (folder / name).exists():
            try:
                found = json.loads((folder / name).read_text())
            except ValueError as error:
                raise ModelUnavailable(f"{folder / name} is damaged: {error}. Fetch it again.") from error
            settings: dict[str, Any] = found.get("image_processor", found)
            return settings
    return {}
