"""Expected error rates: they fall as confidence rises, follow the curve, and know the long s."""

from __future__ import annotations

import pytest
from support.readings import blank_page, text_page

from data_contracts.quality.calibration import is_set_with_long_s, load_curves, predicted_cer, rate_at
from data_contracts.result import PageResult

MODERN = "the sister of the first master rests in this house for sixty seasons as she has said, so she stays"
LONG_S = "the fifter of the firft mafter refts in this houfe for fixty feafons as fhe has faid, fo fhe ftays"


def page_of(text: str, confidence: float) -> PageResult:
    page = text_page([text])
    return page.model_copy(update={"lines": (page.lines[0].model_copy(update={"confidence": confidence}),)})


@pytest.mark.parametrize("name", ["any", "long_s"])
def test_the_shipped_curves_fall_from_much_to_little(name: str) -> None:
    confidences, rates = zip(*load_curves()[name], strict=True)
    assert list(confidences) == sorted(confidences)
    assert list(rates) == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.05 < 0.3 < rates[0] < 1


def test_between_two_points_the_rate_is_between_theirs_and_beyond_the_ends_theirs() -> None:
    curve = ((0.5, 0.4), (0.9, 0.1))
    assert [rate_at(curve, c) for c in (0.1, 0.5, 0.7, 0.9, 1.0)] == pytest.approx([0.4, 0.4, 0.25, 0.1, 0.1])


def test_a_page_expects_the_mean_over_its_characters() -> None:
    sure, unsure = page_of("ab" * 30, 0.999).lines[0], page_of("ab" * 10, 0.6).lines[0]
    expected = (60 * rate_at(load_curves()["any"], 0.999) + 20 * rate_at(load_curves()["any"], 0.6)) / 80
    assert predicted_cer(text_page([sure, unsure])) == pytest.approx(expected)
    assert predicted_cer(blank_page()) is None


def test_a_print_with_the_long_s_expects_more_errors() -> None:
    assert [is_set_with_long_s(text) for text in (MODERN, LONG_S, "off")] == [False, True, False]
    modern, old = predicted_cer(page_of(MODERN, 0.999)), predicted_cer(page_of(LONG_S, 0.999))
    assert modern is not None
    assert old is not None
    assert old > modern
