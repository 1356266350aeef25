"""A disk that is full while a checkpoint is written: a clear error, nothing lost, the same bytes afterwards."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from support.scripted_run import TIMEOUT_S, executions, start
from support.sources import drawn_pdf

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

PAGES = 8
SETTINGS = {"chunk_pages": 2, "chunk_retries": 0, "formats": ["txt", "jsonl"], "reading": {"render": {"dpi": 50}}}


def state_sizes(output: Path) -> list[int]:
    """Return the sizes of the states after each chunk, as the checkpoints have them."""
    pointers = sorted((output / ".tomeflow" / "results").rglob("decode-*"))
    return [json.loads(pointer.read_text())["record"]["state"]["size_bytes"] for pointer in pointers]


def published(output: Path) -> dict[str, bytes]:
    (manifest,) = output.glob("*/manifest.json")
    return {name: (manifest.parent / name).read_bytes() for name in ("document.txt", "pages.jsonl")}


def test_a_full_disk_at_the_third_checkpoint_keeps_the_first_two_and_costs_no_byte(
    prefect_url: str, tmp_path: Path
) -> None:
    source = drawn_pdf(tmp_path / "source.pdf", [f"page {number}" for number in range(1, PAGES + 1)])
    calm, full = tmp_path / "calm", tmp_path / "full"
    calm.mkdir()
    full.mkdir()
    run = start([source], calm / "out", calm, prefect_url, **SETTINGS)
    _, err = run.communicate(timeout=TIMEOUT_S)
    _, second, third, _ = state_sizes(calm / "out")
    assert second < third, err

    run = start([source], full / "out", full, prefect_url, **SETTINGS)
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (third - 1, third - 1))  # the child inherits it
    out, err = run.communicate(timeout=TIMEOUT_S)
    (report,) = json.loads(out)
    assert not report["published"]
    assert report["exit_code"] == 50, err
    for part in ("could not write", "states/", "GB free there", "Make room", "finished work is kept"):
        assert part in report["error"]
    assert len(state_sizes(full / "out")) == 2
    assert not list((full / "out").rglob("*.part"))

    run = start([source], full / "out", full, prefect_url, **SETTINGS)
    out, err = run.communicate(timeout=TIMEOUT_S)
    assert json.loads(out)[0]["published"], err
    assert published(full / "out") == published(calm / "out")
    done = executions(full)
    assert [done.count(f"decode {number}") for number in range(1, PAGES + 1)] == [1, 1, 1, 1, 2, 2, 1, 1]
    assert {done.count(f"encode {number}") for number in range(1, PAGES + 1)} == {1}
