"""``tomeflow bench vlm`` in miniature: the figures exist, grow where they should, and stand still where they should."""

from __future__ import annotations

import json

import pytest

from data_contracts.errors import ConfigError, ModelUnavailable
from flows.bench import vlm as benchmark_vlm
from flows.bench import vlm_decoder as benchmark_vlm_decoder


@pytest.fixture(scope="module")
def report() -> benchmark_vlm.Report:
    setup = benchmark_vlm_decoder.Setup((4, 8), 1, "cpu", "float32", 2, 64, 2)
    with pytest.MonkeyPatch.context() as patched:
        small = {
            "PAGE_TOKENS": 12,
            "VOCABULARY": 512,
            "EXPERTS": 6,
            "DRAFT_OUTPUTS": 12,
            "DRAFT_ERROR_RATIOS": (0.0, 0.5),
        }
        for name, value in small.items():
            patched.setattr(benchmark_vlm_decoder, name, value)
        return benchmark_vlm.measure(setup)


def test_baselines_grow_with_the_pages_and_the_bytes_are_those_of_their_formulas(report: benchmark_vlm.Report) -> None:
    token_bytes = 2 * 10 * 128 * 4
    full, r_swa, ours = report.contenders
    assert full.kv_bytes[8] - full.kv_bytes[4] == 4 * (12 + 64) * token_bytes
    assert r_swa.kv_bytes[8] - r_swa.kv_bytes[4] == 4 * 12 * token_bytes
    live = (1 + 2 * 12 + 128 + 4 * 16 + 15) * token_bytes  # sink, window, tail, references, prompt
    assert ours.kv_bytes[4] == live + 2 * (12 + 0.5) * token_bytes
    assert ours.kv_bytes[8] == live + 6 * (12 + 0.5) * token_bytes


def test_a_good_draft_takes_fewer_passes_than_a_bad_one(report: benchmark_vlm.Report) -> None:
    passes = report.passes_by_draft_error
    assert passes[0.0] < passes[0.5] <= 13
    assert passes[0.0] <= 4


def test_a_page_turn_is_a_small_part_of_a_page(report: benchmark_vlm.Report) -> None:
    assert 0 < report.page_turn_ratio < 0.05


def test_the_report_names_its_conditions(report: benchmark_vlm.Report) -> None:
    text = report.as_text()
    assert "1 of 12 layers" in text
    assert "random weights" in text
    assert json.loads(json.dumps(report.as_json()))["page_turn_ratio"] == report.page_turn_ratio


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="--depths eight"):
        benchmark_vlm.main(["--depths", "eight"])
    with pytest.raises(ConfigError, match="at least 1"):
        benchmark_vlm.main(["--depths", "0"])


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelUnavailable, match="no cuda device"):
        benchmark_vlm.main(["--device", "cuda"])
