"""A model's own rotary positions, as the attention set needs them: any key to any position, exactly once.

Flavours differ (half-split or interleaved pairs, part of the head only, scaled frequencies, three axes), and a
foreign rotation is silently wrong. So the model's own module and function are called, and proven at load.
Nothing here knows of pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from data_contracts.errors import ModelUnavailable
from models.sr_swa.rotary import Turn

UNREBASEABLE = ("dynamic", "longrope")
"""Scalings whose frequencies depend on the longest position seen: a key turned early no longer fits one turned late."""
PROBE_POSITIONS = (0, 1, 37, 911, 4096)
TOLERANCE = 1e-3
"""Largest relative error of a turned key in float32: angles near 4,096 are rounded to 2e-4. A foreign convention is
wrong by 1 and more."""


class RopeAdapter:
    """The rotary code of one decoder, a ``RopeCode``. Invariant: it has passed ``check``."""

    def __init__(self, decoder: Any) -> None:
        """Find the code of ``decoder``, a text model of transformers, and prove it.

        Raises:
            ModelUnavailable: there is no such code, its keys cannot be re-based, or it fails its test.
        """
        self._module = _rotary_module(decoder)
        self._apply = _rotary_function(decoder)
        self._scaling = float(getattr(self._module, "attention_scaling", 1.0))
        self._head_dim = head_dim_of(decoder.config)
        self.check()

    def __call__(self, positions: torch.Tensor, dtype: torch.dtype) -> Turn:
        """Return the turn to ``positions`` [tokens] or [spans, 1, tokens] for states of ``dtype``.

        The states are [..., tokens, head_dim], or [heads, tokens, head_dim] to be turned once a span. Angles and
        products are float32; the result is rounded once. The model's scaling of the scores is left out: the model has
        already applied it when the states arrive.
        """
        flat = positions.reshape(-1, positions.shape[-1])
        like = torch.empty(0, dtype=torch.float32, device=positions.device)
        cos, sin = (part / self._scaling for part in self._module(like, flat))

        def turn(states: torch.Tensor) -> torch.Tensor:
            exact = states.float()
            shape = (len(flat), *states.shape) if positions.ndim > 1 else states.shape
            heads = (
                exact.expand(len(flat), *exact.shape) if positions.ndim > 1 else exact.reshape(1, -1, *exact.shape[-2:])
            )
            turned, _ = self._apply(heads, heads[:, :1], cos, sin)
            return turned.reshape(shape).to(states.dtype)

        return turn

    def check(self) -> None:
        """Prove R(k, 0) = k and R(R(k, a), b - a) = R(k, b).

        Raises:
            ModelUnavailable: one of them fails; the message has the error.
        """
        key = torch.randn(1, 1, self._head_dim, generator=torch.Generator().manual_seed(0)).to(self._device)
        worst = _relative_error(self._at(key, 0), key)
        for first in PROBE_POSITIONS:
            for second in PROBE_POSITIONS:
                chained = self._at(self._at(key, first), second - first)
                worst = max(worst, _relative_error(chained, self._at(key, second)))
        if not worst <= TOLERANCE:
            raise ModelUnavailable(
                f"the rotary positions of this model cannot be re-based: a key that is moved differs by {worst:.2g} "
                f"from one computed in place (at most {TOLERANCE}). Use a model with fixed frequencies."
            )

    def check_against(self, unturned: torch.Tensor, turned: torch.Tensor, positions: torch.Tensor) -> None:
        """Prove that ``unturned`` keys [heads, tokens, head_dim], moved to ``positions``, are the model's own.

        Raises:
            ModelUnavailable: they are not: the model applies other code than was found.
        """
        error = _relative_error(self(positions, torch.float32)(unturned), turned)
        if not error <= TOLERANCE:
            raise ModelUnavailable(
                f"keys turned by {self._apply.__module__}.{self._apply.__name__} differ by {error:.2g} from those that "
                f"the model itself makes (at most {TOLERANCE}). Use the pinned version of transformers."
            )

    @property
    def _device(self) -> torch.device:
        return next(iter(self._module.buffers()), torch.empty(0)).device

    def _at(self, key: torch.Tensor, position: int) -> torch.Tensor:
        return self(torch.tensor([position], device=key.device), torch.float32)(key)


def head_dim_of(config: Any) -> int:
    """Return the dimension of one head of a text configuration."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _rotary_module(decoder: Any) -> Any:
    """Return the module positions -> (cos, sin)."""
    module = getattr(decoder, "rotary_emb", None)
    if module is None:
        raise ModelUnavailable(
            f"{type(decoder).__name__} has no rotary_emb, and SR-SWA moves keys by rotary positions. "
            "Use a model that has them."
        )
    rope_type = str(getattr(module, "rope_type", "default"))
    if rope_type in UNREBASEABLE:
        raise ModelUnavailable(
            f"{type(decoder).__name__} scales its rotary positions by '{rope_type}': frequencies change with the "
            "longest position, so keys cannot be re-based. Set another rope_type, or use another model."
        )
    return module


def _rotary_function(decoder: Any) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Return the function (query, key, cos, sin) -> both turned that the decoder's attention calls."""
    attention_module = sys.modules[type(decoder.layers[0].self_attn).__module__]
    found: Callable[..., tuple[torch.Tensor, torch.Tensor]] | None = getattr(
        attention_module, "apply_rotary_pos_emb", None
    )
    if found is None:
        raise ModelUnavailable(
            f"{attention_module.__name__} has no apply_rotary_pos_emb: how it turns keys is unknown. "
            "Use the pinned version of transformers."
        )
    return found


def _relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())
