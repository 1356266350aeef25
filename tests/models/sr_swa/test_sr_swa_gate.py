from __future__ import annotations

import pytest
import torch

from data_contracts.config import SrSwaConfig
from models.sr_swa.gate import entropy_uncertainty, need_cross_page_context


def test_the_gate_fires_strictly_above_its_threshold() -> None:
    config = SrSwaConfig(gate_uncertainty=0.25)
    assert [need_cross_page_context(u, config) for u in (0.0, 0.25, 0.2500001, 1.0)] == [False, False, True, True]


def test_a_sure_decoder_never_fires_even_at_threshold_zero() -> None:
    sure = torch.full((3, 50), -1e4)
    sure[:, 7] = 1e4
    config = SrSwaConfig(gate_uncertainty=0)
    assert not any(need_cross_page_context(u, config) for u in entropy_uncertainty(sure).tolist())


def test_a_lost_decoder_fires_unless_the_threshold_is_one() -> None:
    lost = torch.zeros(50)
    uncertainty = float(entropy_uncertainty(lost))
    assert uncertainty == pytest.approx(1)
    assert need_cross_page_context(uncertainty, SrSwaConfig())
    assert not need_cross_page_context(uncertainty, SrSwaConfig(gate_uncertainty=1))


def test_uncertainty_grows_with_doubt() -> None:
    doubt = torch.tensor([[9.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.0, 0.9, 0.0], [0.0, 0.0, 0.0]])
    uncertainties = entropy_uncertainty(doubt).tolist()
    assert uncertainties == sorted(uncertainties)


@pytest.mark.parametrize("broken", [float("nan"), -0.1, 1.1])
def test_an_uncertainty_that_is_no_probability_is_refused(broken: float) -> None:
    with pytest.raises(ValueError, match="not between 0 and 1"):
        need_cross_page_context(broken, SrSwaConfig())
