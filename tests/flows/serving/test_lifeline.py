"""What a watched process takes for its own code: what is installed, and nothing of the folder it works in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.serving.parent_watchdog import child_environment

ROOT = Path(__file__).resolve().parents[3]


def test_a_file_among_the_scans_does_not_pass_for_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flows" / "serving").mkdir(parents=True)
    for module in (
        "flows/__init__.py",
        "flows/serving/__init__.py",
        "flows/serving/parent_watchdog.py",
        "runpy.py",
        "json.py",
        "threading.py",
    ):
        (tmp_path / module).write_text("open('made', 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    listing = [sys.executable, "-m", "flows.serving.parent_watchdog", "json.tool", os.devnull]
    done = subprocess.run(listing, cwd=tmp_path, env=child_environment(), capture_output=True, text=True)
    assert "Expecting value" in done.stderr, done.stderr  # the real json.tool, at an empty file
    assert not (tmp_path / "made").exists()
