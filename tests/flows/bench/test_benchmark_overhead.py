"""The benchmark of orchestration runs what it says; how long anything takes decides nothing here."""

from __future__ import annotations

import json

import pytest
from support.command import run


@pytest.mark.slow
@pytest.mark.flow
@pytest.mark.e2e
def test_the_benchmark_of_orchestration_prints_a_figure_for_each_cost() -> None:
    done = run("bench", "overhead", "--pages", "2", "--documents", "2", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert set(figures) == {"server_start_s", "flow_imports_s", "first_run_with_model_s", "chunk_ms", "document_ms"}
    assert figures["server_start_s"] > 0
    assert figures["first_run_with_model_s"] > 0


def test_one_chunk_alone_has_no_difference_to_measure() -> None:
    done = run("bench", "overhead", "--pages", "1")
    assert done.returncode == 2
    assert "two pages" in done.stderr
