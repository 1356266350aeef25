"""Digitize with the scripted model: ``python -m support.scripted_run SOURCE ... OUTPUT CONFIG``, reports on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600


def start(
    sources: Sequence[Path | str], output: Path | str, folder: Path, prefect_url: str, **config: Any
) -> subprocess.Popen[str]:
    """Start a run whose script and list of executions lie in ``folder``."""
    return subprocess.Popen(
        [sys.executable, "-m", "support.scripted_run", *map(str, sources), str(output), json.dumps(config)],
        env=environment(folder, prefect_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def environment(folder: Path, prefect_url: str) -> dict[str, str]:
    """The environment in which whatever tomeflow starts reads with the scripted model."""
    script = folder / "script.json"
    if not script.exists():
        script.write_text("{}")
    path = (ROOT, ROOT / "tests", ROOT / "tests" / "support" / "scripted_site")
    return {
        **os.environ,
        "PREFECT_API_URL": prefect_url,
        "SCRIPTED_FOLDER": str(folder),
        "PYTHONPATH": os.pathsep.join(map(str, path)),
    }


def finished(output: Path) -> set[str]:
    """Return every page whose checkpoint is there, in the words of ``executions``."""
    return {
        f"{path.name.partition('-')[0]} {number}"
        for path in (output / ".tomeflow" / "results").rglob("*code-*")
        for number in json.loads(path.read_text())["record"]["page_numbers"]
    }


def executions(folder: Path) -> list[str]:
    """Return every page begun, such as ``decode 3``, in order."""
    file = folder / "executions.txt"
    return file.read_text().splitlines() if file.exists() else []


if __name__ == "__main__":
    from data_contracts.config import DigitizeConfig
    from flows.digitize import digitize_collection
    from flows.execution.outcome import report_of

    *sources, output, config = sys.argv[1:]
    reports = report_of(digitize_collection, sources, output, DigitizeConfig.model_validate_json(config))
    print(json.dumps([report.model_dump() for report in reports]))
