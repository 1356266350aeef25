"""Backfill with the scripted model: ``python -m support.scripted_backfill OUTPUT PARAMETERS``.

On stdout: the report, and which libraries of neural networks the flow's own process has imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.scripted_run import TIMEOUT_S, environment

NETWORKS = ("torch", "onnxruntime", "transformers")


def backfilled(output: Path, folder: Path, prefect_url: str, **parameters: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the report on the one document, and the libraries imported; the script lies in ``folder``."""
    done = subprocess.run(
        [sys.executable, "-m", "support.scripted_backfill", str(output), json.dumps(parameters)],
        env=environment(folder, prefect_url),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    report, imported = map(json.loads, done.stdout.splitlines())
    (document,) = report["documents"]
    return document, imported


if __name__ == "__main__":
    from flows.backfill import backfill
    from flows.execution.outcome import report_of

    output, parameters = sys.argv[1:]
    print(report_of(backfill, output, **json.loads(parameters)).model_dump_json())
    print(json.dumps([name for name in NETWORKS if name in sys.modules]))
