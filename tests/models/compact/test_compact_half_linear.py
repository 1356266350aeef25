"""Packed linear layers say what they said before."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from models.compact.decode.half_linear import FBGEMM, HalfLinear, packed

LINES, STEPS, WIDTH, HIDDEN = 3, 7, 192, 576
NO_FBGEMM = FBGEMM not in torch.backends.quantized.supported_engines


@pytest.mark.skipif(NO_FBGEMM, reason="not applicable: torch without FBGEMM")
def test_weights_of_half_precision_lose_nothing_when_they_are_packed() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(HalfLinear(WIDTH, HIDDEN), nn.GELU(), HalfLinear(HIDDEN, 1)).half().float()
    asked = torch.randn(LINES, STEPS, WIDTH)
    with torch.inference_mode():
        before = model(asked)
        after = packed(model)(asked)
        model[0].weight.zero_()
        assert torch.equal(model(asked), after)  # the packed weights are multiplied, not those beside them
    assert after.shape == (LINES, STEPS, 1)
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-5)
