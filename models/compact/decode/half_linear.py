"""Linear layers for reading, with weights of half precision.

torch multiplies float32 matrices with MKL, which uses but half the width of processors not made by Intel (108 against
220 GFLOP/s in one thread of an AMD EPYC); FBGEMM asks the processor what it can do. It takes weights of half
precision, as they lie in the file, and computes in float32: nothing is lost.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn

FBGEMM = "fbgemm"

Model = TypeVar("Model", bound=nn.Module)


class HalfLinear(nn.Linear):
    """A linear layer that may be packed for reading, once its weights are final and of half precision."""

    _packed: Any = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return ``input`` [..., in_features] as [..., out_features]."""
        if self._packed is None:
            return super().forward(input)
        return torch.ops.quantized.linear_dynamic_fp16(input, self._packed)  # type: ignore[no-any-return]

    def pack(self) -> None:
        """Multiply with FBGEMM from now on, where torch has it."""
        if FBGEMM in torch.backends.quantized.supported_engines:
            self._packed = torch.ops.quantized.linear_prepack_fp16(self.weight, self.bias)


def packed(model: Model) -> Model:
    """Return ``model``, which is not trained any more, with all its linear layers packed."""
    for module in model.modules():
        if isinstance(module, HalfLinear):
            module.pack()
    return model
