"""Pages that hang, kill the process that reads them, or break the model: they cost themselves and nothing else."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from support.failures.processes import children_of, until
from support.scripted_backfill import backfilled
from support.scripted_run import TIMEOUT_S, executions, start
from support.sources import drawn_pdf

from data_contracts.formats.jsonl import read_pages
from data_contracts.result import PageResult

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

PAGES = 8
SETTINGS = {"chunk_pages": 4, "formats": ["txt", "jsonl"], "reading": {"render": {"dpi": 50}}}
STEP_TIMEOUT_S = 20
"""Hundreds of times what a scripted page takes, and enough to import MuPDF on a busy machine."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drawn_pdf(tmp_path_factory.mktemp("source") / "source.pdf", [f"page {n}" for n in range(1, PAGES + 1)])


def digitized(source: Path, folder: Path, url: str, **settings: object) -> tuple[dict[str, PageResult], bytes, str]:
    run = start([source], folder / "out", folder, url, **{**SETTINGS, **settings})
    out, err = run.communicate(timeout=TIMEOUT_S)
    assert run.returncode == 0, err
    published = Path(json.loads(out)[0]["output"]) / "pages.jsonl"
    return {page.page_number: page for page in read_pages(published)}, published.read_bytes(), err


def test_a_process_that_dies_once_is_started_again_and_costs_no_byte(
    source: Path, prefect_url: str, tmp_path: Path
) -> None:
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    for folder in (calm, disturbed):
        folder.mkdir()
    (disturbed / "script.json").write_text(json.dumps({"encode 2": ["die", 1], "decode 7": ["die", 1]}))
    _, expected, _ = digitized(source, calm, prefect_url)
    pages, content, _ = digitized(source, disturbed, prefect_url)
    assert {number: page.error for number, page in pages.items() if page.status != "text"} == {}
    assert content == expected
    assert executions(calm).count("decode 1") == executions(disturbed).count("decode 1") == 1, "finished work is kept"
    assert executions(disturbed).count("encode 2") == 2


def test_a_process_that_dies_while_it_loads_the_model_is_started_again(
    source: Path, prefect_url: str, tmp_path: Path
) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"load 0": ["die", 1]}))
    pages, _, err = digitized(source, tmp_path, prefect_url)
    assert {page.status for page in pages.values()} == {"text"}
    assert executions(tmp_path).count("load 0") == 2
    assert "the model was not loaded; trying again" in err
    assert "(SIGSEGV). Run again.\n" in err, "no page is to blame"


@pytest.mark.slow
def test_a_page_that_hangs_dies_or_breaks_the_model_is_failed_and_the_rest_is_read(
    source: Path, prefect_url: str, tmp_path: Path
) -> None:
    script = {"encode 2": ["hang", 99], "encode 7": ["die", 99], "decode 4": ["die", 99], "decode 5": ["fail", 99]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    pages, _, _ = digitized(source, tmp_path, prefect_url, chunk_retries=0, step_timeout_seconds=STEP_TIMEOUT_S)
    failed = {number: page.error for number, page in pages.items() if page.status == "failed"}
    assert sorted(failed) == [2, 4, 5, 7]
    assert f"no sign of life for {STEP_TIMEOUT_S} s" in failed[2]
    assert "SIGSEGV" in failed[4]
    assert "SIGSEGV" in failed[7]
    assert failed[5] == "ZeroDivisionError: scripted at decode 5"
    assert {page.status for number, page in pages.items() if number not in failed} == {"text"}


@pytest.mark.slow
def test_a_page_read_again_that_hangs_or_dies_again_is_failed_and_the_others_are_read(
    source: Path, prefect_url: str, tmp_path: Path
) -> None:
    calm, output = tmp_path / "calm", tmp_path / "out"
    calm.mkdir()
    undisturbed, _, _ = digitized(source, calm, prefect_url)
    lost = {f"encode {number}": ["fail", 99] for number in (2, 5, 7)}
    (tmp_path / "script.json").write_text(json.dumps(lost))
    before, _, _ = digitized(source, tmp_path, prefect_url, chunk_retries=0, step_timeout_seconds=STEP_TIMEOUT_S)
    assert {number for number, page in before.items() if page.status == "failed"} == {2, 5, 7}

    (tmp_path / "executions.txt").unlink()
    (tmp_path / "script.json").write_text(json.dumps({"decode 5": ["hang", 99], "encode 7": ["die", 99]}))
    document, imported = backfilled(output, tmp_path, prefect_url)
    assert imported == [], "pages are read in a child process, which alone holds the model"
    assert document["statuses"] == {"2": "text", "5": "failed", "7": "failed"}
    assert f"page 5: no sign of life for {STEP_TIMEOUT_S} s" in document["error"]
    assert "page 7: the process that read ended by itself (SIGSEGV)" in document["error"]
    (published,) = output.glob("[!.]*/pages.jsonl")
    after = {page.page_number: page for page in read_pages(published)}
    assert after[2].lines == undisturbed[2].lines, "in the memory that it would have had"
    assert [after[n] == before[n] for n in (5, 7)] == [True, True], "what failed again keeps the reading that it had"
    assert not list((output / ".tomeflow").rglob("*again-*")), "what was needed on the way is dropped"

    (tmp_path / "script.json").write_text("{}")
    alone, imported = backfilled(output, tmp_path, prefect_url, pages="7", overrides={"sr_swa.window_pages": 2})
    assert (alone["statuses"], imported) == ({"7": "text"}, [])


def test_a_step_process_ends_with_the_run_that_started_it(source: Path, prefect_url: str, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"encode 1": ["hang", 1]}))
    run = start([source], tmp_path / "out", tmp_path, prefect_url, **SETTINGS)
    try:
        assert until(lambda: "encode 1" in executions(tmp_path), TIMEOUT_S)
        children = children_of(run.pid)
        assert children
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
    assert until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), TIMEOUT_S)
