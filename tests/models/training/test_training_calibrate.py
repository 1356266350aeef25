"""Fitting the calibration: pooled portions fall, and what is written says where it comes from."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from data_contracts.quality.calibration import load_curves, rate_at
from models.training.calibrate import ReadLine, fit_curve, write_curves


def lines_at(seed: int, count: int = 4000) -> list[ReadLine]:
    """Lines of 50 characters in which each errs with one less the confidence."""
    rng = random.Random(seed)
    confidences = [1 - 0.5 * rng.random() ** 3 for _ in range(count)]
    return [ReadLine(c, 50, sum(rng.random() > c for _ in range(50)), rng.random() < 0.3) for c in confidences]


def test_a_known_relation_is_found_again() -> None:
    curve = fit_curve(lines_at(1))
    for confidence in (0.6, 0.8, 0.95, 0.99):
        assert rate_at(curve, confidence) == pytest.approx(1 - confidence, rel=0.35, abs=0.004)


def test_rates_that_rise_are_pooled() -> None:
    lines = [ReadLine(0.5, 10, 1, False), ReadLine(0.7, 10, 3, False), ReadLine(0.9, 10, 0, False)]
    assert fit_curve(lines, portions=3) == [(0.5, 0.2), (0.7, 0.2), (0.9, 0.0)]


def test_the_file_holds_both_curves_and_their_provenance(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    write_curves(path, lines_at(2, 500), {"documents": {"en": 3}})
    assert set(load_curves(path)) == {"any", "long_s"}
    assert json.loads(path.read_text())["provenance"] == {"documents": {"en": 3}, "lines": 500, "characters": 25000}
