from __future__ import annotations

import cmath

import pytest
import torch

from data_contracts.errors import ConfigError
from models.sr_swa.rotary import rotate, rotate_in_place

THETA = 10_000.0
SAME = 1e-6
"""Two paths in float32 to numbers of size 1: a few units in the last place."""
DRIFT_ONCE_BF16, DRIFT_CHAINED_BF16 = 3e-3, 1e-2
"""bfloat16 keeps 8 bits: one rounding is 1.7e-3 in the mean, seventy-two add up."""


def by_complex_numbers(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The same rotation, pair by pair in Python's complex numbers."""
    half = states.shape[-1] // 2
    turned = torch.empty_like(states)
    for token, position in enumerate(positions.tolist()):
        for pair in range(half):
            turn = cmath.exp(1j * position * THETA ** (-pair / half))
            for head in range(len(states)):
                number = complex(states[head, token, pair], states[head, token, pair + half]) * turn
                turned[head, token, pair], turned[head, token, pair + half] = number.real, number.imag
    return turned


def test_rotation_equals_multiplication_by_complex_numbers() -> None:
    states, positions = torch.randn(2, 5, 8), torch.tensor([0, 1, 7, 300, 32_767])
    assert torch.allclose(rotate(states, positions, THETA), by_complex_numbers(states, positions), atol=SAME)


def test_position_zero_and_no_theta_change_nothing() -> None:
    states = torch.randn(2, 5, 8)
    assert torch.equal(rotate(states, torch.zeros(5), THETA), states)
    assert rotate(states, torch.arange(5), None) is states


def test_a_score_depends_on_the_distance_only() -> None:
    query, key = torch.randn(1, 1, 64, dtype=torch.float64), torch.randn(1, 1, 64, dtype=torch.float64)

    def score(query_position: int, key_position: int) -> torch.Tensor:
        turned = [rotate(s, torch.tensor([p]), THETA) for s, p in ((query, query_position), (key, key_position))]
        return (turned[0] * turned[1]).sum()

    assert torch.isclose(score(900, 850), score(50, 0), atol=SAME)
    assert not torch.isclose(score(900, 850), score(51, 0), atol=1e-3)


def test_turning_back_restores_the_key() -> None:
    keys, positions = torch.randn(2, 3, 5, 8), torch.tensor([3, 1000, 5, 7, 32_000])
    assert torch.allclose(rotate(rotate(keys, positions, THETA), -positions, THETA), keys, atol=SAME)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rotating_in_place_is_rotating(dtype: torch.dtype) -> None:
    keys, positions = torch.randn(2, 3, 5, 8).to(dtype), torch.arange(5)
    expected = rotate(keys, positions, THETA)
    rotate_in_place(keys, positions, THETA)
    assert torch.equal(keys, expected)
    assert keys.dtype == dtype


def test_one_rotation_from_the_original_does_not_drift_and_a_chain_does() -> None:
    exact = torch.randn(4, 256, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    keys, places, shift = exact.bfloat16(), torch.arange(256) + 72 * 256, torch.full((256,), -256)
    chained = rotate(keys, places, THETA)
    for _ in range(72):
        chained = rotate(chained, shift, THETA)
    once = rotate(keys, places + 72 * shift, THETA)
    wanted = rotate(exact, places + 72 * shift, THETA)
    drift = {
        name: float((got.double() - wanted).norm() / wanted.norm())
        for name, got in (("once", once), ("chained", chained))
    }
    print(f"relative drift in bfloat16: {drift}")
    assert drift["once"] < DRIFT_ONCE_BF16
    assert drift["chained"] > DRIFT_CHAINED_BF16


def test_an_odd_head_is_refused() -> None:
    with pytest.raises(ConfigError, match="head_dim 7 is odd"):
        rotate(torch.randn(1, 2, 7), torch.arange(2), THETA)
