"""Run the command as a user does: a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUN_TIMEOUT_S = 900


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "flows.commands.cli", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
