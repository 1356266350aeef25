"""Degradation of generated lines: clear of the frozen benchmark, reproducible, graded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models.training.drawing.degrade import (
    BENCHMARK_CLEARANCE_RATIO,
    BENCHMARK_HEIGHTS_PX,
    BENCHMARK_ONE_BIT_HEIGHTS_PX,
    CROP_HEIGHT_PX,
    STYLES,
    Image,
    Style,
    degrade,
    draw_degradation,
    draw_scale,
    rubbish,
)

FROZEN = Path(__file__).parents[3] / "flows" / "bench" / "degradations.json"


def printed() -> Image:
    ink = np.zeros((CROP_HEIGHT_PX, 300), np.uint8)
    for x in range(20, 280, 12):
        ink[12:36, x : x + 5] = 255
    return ink


def one_line(style: Style, severity: float, seed: int = 0) -> Image:
    rng = np.random.default_rng(seed)
    return degrade(printed(), draw_degradation(rng, style, severity), rng, behind=printed())


def test_the_settings_kept_clear_of_are_the_frozen_ones() -> None:
    for name, setting in json.loads(FROZEN.read_text("utf-8"))["degradations"].items():
        kept_clear_of = BENCHMARK_ONE_BIT_HEIGHTS_PX if "threshold_ratio" in setting else BENCHMARK_HEIGHTS_PX
        assert setting["line_height_px"] in kept_clear_of, name


@pytest.mark.parametrize("style", STYLES)
def test_no_line_is_scanned_within_ten_percent_of_a_benchmark_setting(style: Style) -> None:
    rng = np.random.default_rng(3)
    forbidden = BENCHMARK_ONE_BIT_HEIGHTS_PX if style == "one_bit" else BENCHMARK_HEIGHTS_PX
    heights = [CROP_HEIGHT_PX * draw_scale(float(rng.random()), style, rng) for _ in range(5000)]
    for height in forbidden:
        assert not [h for h in heights if abs(h - height) <= BENCHMARK_CLEARANCE_RATIO * height]
    assert min(heights) < min(forbidden)


@pytest.mark.parametrize("style", STYLES)
def test_equal_seeds_give_equal_lines_and_others_do_not(style: Style) -> None:
    assert np.array_equal(one_line(style, 0.5, seed=4), one_line(style, 0.5, seed=4))
    assert not np.array_equal(one_line(style, 0.5, seed=4), one_line(style, 0.5, seed=5))


@pytest.mark.parametrize("style", STYLES)
def test_a_worse_line_is_farther_from_what_was_printed(style: Style) -> None:
    def likeness(severity: float) -> float:
        seen = [one_line(style, severity, seed) for seed in range(12)]
        clean = 255.0 - printed()
        return float(np.mean([np.corrcoef(image.ravel(), clean.ravel())[0, 1] for image in seen]))

    assert likeness(0.05) > likeness(0.5) > likeness(0.95)


def test_one_bit_lines_are_mostly_black_and_white() -> None:
    image = one_line("one_bit", 0.2, seed=1)
    assert np.mean((image < 30) | (image > 225)) > 0.9


def test_rubbish_is_of_the_size_asked_for_and_of_many_kinds() -> None:
    rng = np.random.default_rng(0)
    drawn = [rubbish(48, 90, rng) for _ in range(60)]
    assert {image.shape for image in drawn} == {(48, 90)}
    assert any(not image.any() for image in drawn)
    assert any(image.mean() > 40 for image in drawn)
