from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch

from data_contracts.config import SrSwaConfig
from data_contracts.errors import ConfigError, ContractViolated
from flows.bench.kv import main
from flows.bench.page_turner import GEOMETRIES, PageTurner, Setup
from models.sr_swa.memory.store import SparseReferenceStore

SMALL = ["--geometry", "unlimited-ocr", "--layers", "1", "--text-tokens", "3", "--threads", "1"]
SMALL += ["--window", "2", "--top-k", "1", "--reference-pages", "3", "--tail", "8"]
QUICK = [*SMALL, "--pages", "12", "--depths", "2,4", "--baseline-gb", "0.05", "--pairs", "3"]
FULL_PAGE = 2 + 3 + 1
TOKEN_BYTES = 2 * 12 * 10 * 128 * 2
"""Keys and values of one token of Unlimited-OCR, all 12 layers, bfloat16."""


def run(*arguments: str) -> dict[str, Any]:
    output = StringIO()
    with redirect_stdout(output):
        assert main([*arguments, "--json"]) == 0
    report: dict[str, Any] = json.loads(output.getvalue())
    return report


@pytest.fixture(autouse=True, scope="module")
def few_timed_steps() -> Iterator[None]:
    """No test here is about how long a step takes; torch gets its threads back."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.bench.kv_measure.MAX_TIMED_STEPS", 3)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def report(few_timed_steps: None) -> dict[str, Any]:
    """The figures of one quick run."""
    return run(*QUICK)


def a_setup(geometry_name: str, pages: int = 100, **config: int) -> Setup:
    return Setup(
        geometry_name=geometry_name,
        pages=pages,
        config=SrSwaConfig(**config),  # type: ignore[arg-type]
        text_tokens=640,
        layers=GEOMETRIES[geometry_name].layers,
        depths=(),
        latency_pairs=1,
        baseline_bytes=1,
    )


def test_the_headline_figures_of_the_design_are_what_the_formula_gives() -> None:
    setup = a_setup("7b-mha")
    full_bytes = (100 * (256 + 640) + 16) * GEOMETRIES["7b-mha"].bytes_per_token
    assert round(full_bytes / 1e9, 2) == 46.98
    assert round(setup.live_bytes / 1e9, 2) == 1.18
    assert round((setup.live_bytes + setup.store_bytes) / 1e9, 2) == 1.74
    assert 1 - (setup.live_bytes + setup.store_bytes) / full_bytes > 0.96


def test_the_figure_of_the_unlimited_ocr_geometry_is_what_the_formula_gives() -> None:
    setup = a_setup("unlimited-ocr")
    assert round((setup.live_bytes + setup.store_bytes) / 1e9, 3) == 0.212


def test_every_geometry_has_the_shape_that_it_is_named_for() -> None:
    shapes = {name: (g.layers, g.kv_heads, g.head_dim, g.page_tokens) for name, g in GEOMETRIES.items()}
    assert shapes == {
        "7b-mha": (32, 32, 128, 256),
        "7b-gqa": (32, 8, 128, 256),
        "unlimited-ocr": (12, 10, 128, 273),
    }


def test_held_bytes_equal_the_formula_to_the_byte_and_do_not_grow(report: dict[str, Any]) -> None:
    assert report["live_kv_bytes"] == (2 * 273 + 8 + 1 * 16 + 16) * TOKEN_BYTES
    assert report["store_kv_bytes"] == 3 * (16 * TOKEN_BYTES + TOKEN_BYTES // 2)
    assert report["peak_kv_bytes"] == report["live_kv_bytes"] + report["store_kv_bytes"]
    assert report["equals_formula"] is True
    assert report["growth_bytes_per_page"] == 0
    assert report["growth_null_because"] is None


def test_bytes_are_of_all_layers_whatever_slice_was_allocated(report: dict[str, Any]) -> None:
    one, two = report, run(*QUICK, "--layers", "2")
    same = ("live_kv_bytes", "store_kv_bytes", "full_kv_bytes", "rswa_kv_bytes", "saving_ratio", "part_kv_bytes")
    assert {key: one[key] for key in same} == {key: two[key] for key in same}
    assert (one["layers_measured"], two["layers_measured"]) == (1, 2)
    assert one["allocated"] == "1 of 12 layers; the rest multiplied"


def test_parts_add_up_to_the_whole(report: dict[str, Any]) -> None:
    assert sum(report["part_kv_bytes"].values()) == report["peak_kv_bytes"]


def test_baselines_hold_what_their_policies_say(report: dict[str, Any]) -> None:
    live_tokens = report["live_kv_bytes"] // TOKEN_BYTES
    held = {baseline["name"]: baseline["kv_bytes"] / TOKEN_BYTES for baseline in report["baselines"]}
    assert held == {
        "full cache": 16 + 12 * 276,
        "R-SWA": 16 + 8 + 12 * 273,
        "StreamingLLM-style": live_tokens,
        "page loop": 16 + 276,
        "Ring Attention, each of 8 devices": 2 * -(-(16 + 12 * 276) // 8),
    }
    growth = [baseline["growth_bytes_per_page"] / TOKEN_BYTES for baseline in report["baselines"]]
    assert growth == [276, 273, 0, 0, 69]
    assert report["full_kv_bytes"] == held["full cache"] * TOKEN_BYTES
    assert report["rswa_kv_bytes"] == held["R-SWA"] * TOKEN_BYTES
    assert report["saving_ratio"] == pytest.approx(1 - report["peak_kv_bytes"] / report["full_kv_bytes"])


def test_a_baseline_that_does_not_fit_is_allocated_in_part_and_the_output_says_so() -> None:
    report = run(*QUICK, "--baseline-gb", "0.005")
    full, *_, page_loop, _ = report["baselines"]
    assert full["allocated"] == "1 of 12 layers, 3 of 12 pages; the rest multiplied"
    assert page_loop["allocated"] == "1 of 12 layers; the rest multiplied"
    assert full["step_ms_multiplied_at_pages"] == [4]
    assert page_loop["step_ms_multiplied_at_pages"] == []
    assert full["kv_bytes"] == (16 + 12 * 276) * TOKEN_BYTES


def test_no_baseline_is_given_more_layers_than_are_measured_of_sr_swa(report: dict[str, Any]) -> None:
    assert report["layers_measured"] == 1
    *allocated, _ = (baseline["allocated"] for baseline in report["baselines"])
    assert set(allocated) == {"1 of 12 layers; the rest multiplied"}


def test_a_step_beyond_what_fits_is_that_of_what_fits_times_the_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.bench.kv_measure._timed_ms", lambda step, device: 1.0)
    full = run(*QUICK, "--baseline-gb", "0.005")["baselines"][0]
    assert full["step_ms"] == {"2": 1.0, "4": pytest.approx((16 + 4 * 276) / (16 + 3 * 276))}


def test_steps_are_timed_at_the_depths_asked_for(report: dict[str, Any]) -> None:
    assert list(report["step_ms"]) == ["2", "4"]
    assert all(ms > 0 for ms in report["step_ms"].values())
    for baseline in report["baselines"][:-1]:
        assert list(baseline["step_ms"]) == ["2", "4"]


def test_a_run_too_short_for_growth_and_ratio_says_null_and_why() -> None:
    report = run(*QUICK, "--pages", str(FULL_PAGE))
    assert report["growth_bytes_per_page"] is None
    assert report["growth_null_because"] == f"the run has {FULL_PAGE} pages: memory is full at page {FULL_PAGE}"
    assert report["latency_ratio_last_to_80"] is None
    assert "page 80" in report["latency_null_because"]


def test_a_run_of_more_than_80_pages_compares_its_last_step_with_that_of_page_80() -> None:
    report = run(*QUICK, "--pages", "82", "--depths", "2", "--pairs", "21")
    assert report["latency_null_because"] is None
    assert report["latency_pairs"] == 21
    assert 0.2 < report["latency_ratio_last_to_80"] < 5


def test_all_promised_keys_are_in_the_one_json_object(report: dict[str, Any]) -> None:
    promised = {"geometry", "pages", "layers_measured", "full_kv_bytes", "rswa_kv_bytes", "live_kv_bytes"}
    promised |= {"store_kv_bytes", "saving_ratio", "growth_bytes_per_page", "latency_ratio_last_to_80"}
    promised |= {"peak_process_bytes"}
    assert promised <= set(report)


def test_the_table_shows_the_parameters_every_contender_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(QUICK) == 0
    text = capsys.readouterr().out
    for part in (
        "window_pages 2",
        "SR-SWA",
        "full cache",
        "R-SWA",
        "StreamingLLM-style",
        "page loop",
        "Ring Attention",
        "equal to the formula to the byte",
        "growth from page 6 on: 0 bytes a page",
        "1 of 12 layers; the rest multiplied",
    ):
        assert part in text


def test_planted_pages_are_listed_beside_chance_when_asked_for(report: dict[str, Any]) -> None:
    figures = {figure["name"]: figure for figure in run(*QUICK, "--retrieval", "5")["retrieval"]}
    easy = figures["page 60 repeats page 3"]
    assert easy["found_ratio"] >= 0.95
    assert easy["random_found_ratio"] == pytest.approx(4 / 52)
    assert figures["the same, first in first out"]["found"] == 0
    assert report["retrieval"] == []


def test_the_plot_is_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--plot", str(tmp_path / "curves.png")]) == 0
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_leak_of_a_few_bytes_a_page_is_reported_as_growth(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = SparseReferenceStore.nbytes.fget
    assert honest is not None
    monkeypatch.setattr(
        SparseReferenceStore, "nbytes", property(lambda store: honest(store) + 100 * max(store.page_numbers, default=0))
    )
    with pytest.raises(ContractViolated, match="the formula says"):
        main([*QUICK, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["growth_bytes_per_page"] == 100 * 12
    assert report["equals_formula"] is False


def test_the_maximum_counts_even_if_the_memory_is_given_back_within_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = a_setup("unlimited-ocr", window_pages=2, reference_pages=3)
    turner = PageTurner(setup, layers=1).read_to(2)
    before = turner.high_water.live
    admit = turner.context.window.admit

    def one_slot_more_for_a_moment(block: Any) -> None:
        admit(block)
        turner.context.window.resize(3)

    def and_back(*_: Any) -> Any:
        turner.context.window.resize(2)
        return open_prompt(16)

    open_prompt = turner.context.open_prompt
    monkeypatch.setattr(turner.context.window, "admit", one_slot_more_for_a_moment)
    monkeypatch.setattr(turner.context, "open_prompt", and_back)
    turner.read_to(3)
    assert turner.high_water.live == before + 273 * TOKEN_BYTES // 12
    assert turner.context.window.window_pages == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers", "13"], "unlimited-ocr has 12 layers"),
        (["--window", "65"], "window_pages"),
        (["--tail", "-1"], "tail_tokens"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        main([*QUICK, *arguments])


def test_the_number_of_threads_is_fixed_and_part_of_the_output() -> None:
    torch.set_num_threads(2)
    assert run(*QUICK, "--threads", "1", "--pages", "2")["parameters"]["threads"] == torch.get_num_threads() == 1


def test_reading_the_arguments_needs_no_heavy_package() -> None:
    code = "import sys, flows.bench.kv; sys.exit(bool({'torch', 'matplotlib', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
