"""kill -9 at random points of a run with the real model: the same bytes, and nothing done twice.

What of ``tomeflow serve`` may be killed, and forty pages, are in ``test_serve_failures.py``.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pymupdf
import pytest
from support.command import RUN_TIMEOUT_S, command, run
from support.failures.processes import children_of, until

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

PAGES = 20
OPTIONS = ("--chunk-pages", "5", "--dpi", "100", "--format", "txt,jsonl")
KILLS = 2
LONGEST_LIFE_S = 6.0
SEED = 20261129


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of three short lines, every page another."""
    path = tmp_path_factory.mktemp("book") / "book.pdf"
    words, document = random.Random(SEED), pymupdf.open()
    for number in range(1, PAGES + 1):
        page = document.new_page(width=250, height=120)
        for line in range(3):
            text = " ".join(words.choice(("harbour", "lantern", "orchard", "winter", "gravel")) for _ in range(3))
            page.insert_text((20, 30 + 30 * line), f"{text} {number}", fontsize=13)
    document.save(path)
    return path


def published(output: Path) -> dict[str, bytes]:
    (manifest,) = output.glob("*/manifest.json")
    return {name: (manifest.parent / name).read_bytes() for name in ("document.txt", "pages.jsonl")}


def finished(output: Path) -> dict[Path, int]:
    """Every checkpoint there is, and when it was written."""
    return {path: path.stat().st_mtime_ns for path in (output / ".tomeflow" / "results").rglob("*-*-*")}


def kill_once(book: Path, output: Path, life_s: float) -> None:
    """Start a run, let it finish something and live on for ``life_s``, kill it, and see its children end."""
    before = len(finished(output))
    process = subprocess.Popen(command("run", book, "-o", output, *OPTIONS), stderr=subprocess.DEVNULL)
    assert until(lambda: len(finished(output)) > before or process.poll() is not None, RUN_TIMEOUT_S)
    time.sleep(life_s)
    children = children_of(process.pid)
    process.kill()
    process.wait()
    assert until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), RUN_TIMEOUT_S)


def test_a_run_killed_again_and_again_ends_with_the_same_bytes_and_does_nothing_twice(
    book: Path, prefect_url: str, tmp_path: Path
) -> None:
    os.environ["PREFECT_API_URL"] = prefect_url
    calm = run("run", book, "-o", tmp_path / "calm", *OPTIONS)
    assert calm.returncode == 0, calm.stderr
    moments, output = random.Random(SEED), tmp_path / "killed"
    done: dict[Path, int] = {}
    for _ in range(KILLS):
        kill_once(book, output, moments.uniform(0, LONGEST_LIFE_S))
        now = finished(output)
        assert {path: now.get(path) for path in done} == done, "finished work was done twice"
        done = now
    last = run("run", book, "-o", output, *OPTIONS)
    assert last.returncode == 0, last.stderr
    now = finished(output)
    assert {path: now.get(path) for path in done} == done, "finished work was done twice"
    assert published(output) == published(tmp_path / "calm")
    assert {path.relative_to(output) for path in now} == {
        path.relative_to(tmp_path / "calm") for path in finished(tmp_path / "calm")
    }
