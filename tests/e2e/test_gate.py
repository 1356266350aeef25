"""The gate, from the command: a sound book passes, one with a page doubled is kept back with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import run

from data_contracts.mupdf import mupdf
from flows.sample import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow]

PAGES = 5
DOUBLED = 3


def with_a_page_doubled(source: Path, target: Path) -> Path:
    with mupdf() as pymupdf, pymupdf.open(source) as document:
        document.fullcopy_page(DOUBLED - 1, DOUBLED - 1)
        document.save(target)
    return target


def test_a_sound_book_passes_and_one_with_a_doubled_page_is_kept_back(tmp_path: Path) -> None:
    sound = write_sample(tmp_path / "sound.pdf", PAGES, seed=11)
    doubled = with_a_page_doubled(sound, tmp_path / "doubled.pdf")
    out = tmp_path / "out"
    done = run("run", sound, doubled, "-o", out, "--gate", "--json")
    passed, kept_back = json.loads(done.stdout)["documents"]
    assert (passed["published"], kept_back["published"]) == (True, False), done.stderr
    assert done.returncode == 40
    assert f"{DOUBLED}" in done.stderr
    published = [manifest.parent.name for manifest in out.glob("*/manifest.json")]
    assert published == [passed["id"]]
    assert (out / passed["id"] / "report.html").exists()
    (quarantined,) = (out / ".tomeflow" / "quarantine").glob("*/report.html")
    assert quarantined.parent.name.startswith("doubled-")
