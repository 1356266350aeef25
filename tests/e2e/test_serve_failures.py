"""What ``tomeflow serve`` does by itself when something goes wrong: it calls a webhook and frees what died."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import run as run_command
from support.served import Served, until
from support.webhook import Hook, listening

from flows.sample import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

SECRET = "s3cr3t-path-of-the-hook"
PAGES = 3
# What is promised: heartbeats every 30 s, silence of 90 s, and what the server takes to notice.
FREED_WITHIN_S = 120


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with listening() as hook:
        yield hook


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, hook: Hook) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"), TOMEFLOW_WEBHOOK_URL=f"{hook.url}/{SECRET}")
    write_sample(served.folder / "sample.pdf", PAGES, seed=6)
    served.start()
    yield served
    served.kill()


def readings(output: Path) -> dict[str, bytes]:
    """Return what was published, but for the manifest, which has times."""
    (folder,) = {path.parent for path in output.glob("sample-*/manifest.json")}
    return {name: (folder / name).read_bytes() for name in ("document.txt", "document.pdf", "pages.jsonl")}


def test_a_run_whose_worker_died_with_it_is_freed_within_two_minutes(served: Served, hook: Hook) -> None:
    run_id = served.start_run(source="sample.pdf", config={"chunk_pages": 1})
    results = served.output / ".tomeflow" / "results"
    until(lambda: any(results.rglob("decode-*")), 600, "the first chunk")
    for pid in served.processes("prefect worker") + served.processes("flow_process"):
        os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    finished = {path: path.stat().st_mtime_ns for path in results.rglob("decode-*")}
    state = served.wait_for(run_id, "CRASHED", timeout_s=FREED_WITHIN_S)
    assert "no sign of life" in state["message"]
    assert time.monotonic() - killed < FREED_WITHIN_S
    until(lambda: any("prefect.flow-run.Crashed" in body for _, body in hook.calls), 60, "the call of the webhook")
    again = served.start_run(source="sample.pdf", config={"chunk_pages": 1})
    served.wait_for(again, "COMPLETED")
    assert not [path for path, changed in finished.items() if path.stat().st_mtime_ns != changed]
    undisturbed = served.folder / "undisturbed"
    assert run_command("run", served.folder / "sample.pdf", "-o", undisturbed, "--chunk-pages", "1").returncode == 0
    assert readings(served.output) == readings(undisturbed)


def test_a_failed_run_is_told_to_the_webhook_with_its_reason(served: Served, hook: Hook) -> None:
    run_id = served.start_run(source="missing.pdf")
    served.wait_for(run_id, "FAILED")
    call = until(lambda: [c for c in hook.calls if run_id in c[1]], 60, "the call of the webhook")[0]
    assert call[0] == f"/{SECRET}"
    told = json.loads(call[1])
    assert told["event"] == "prefect.flow-run.Failed"
    assert told["name"] == "missing.pdf"
    assert "missing.pdf" in told["message"]


def test_pages_kept_back_are_told_to_the_webhook(served: Served, hook: Hook) -> None:
    strict = {"gate": True, "min_confidence": 1.0, "max_quarantined_ratio": 1.0}
    run_id = served.start_run(source="sample.pdf", config={"chunk_pages": 1, "pages": "1", "quality": strict})
    served.wait_for(run_id, "COMPLETED")
    call = until(lambda: [c for c in hook.calls if "quarantined" in c[1]], 60, "the call of the webhook")[0]
    told = json.loads(call[1])
    assert told["resource"].startswith("tomeflow.document.sample-")
    assert "page 1" in told["message"]
    (run,) = served.ask("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
    assert run["name"] == "sample.pdf, pages 1"


def test_the_secret_of_the_webhook_stands_in_no_log_and_no_answer(served: Served) -> None:
    logs = [served.log, *served.home.glob("*.log")]
    assert not [path for path in logs if SECRET in path.read_text(errors="replace")]
    answers = [served.ask(f"/{what}/filter", {}) for what in ("logs", "block_documents", "automations", "deployments")]
    assert SECRET not in json.dumps(answers)
    assert any(block["name"] == "tomeflow-notify" for block in answers[1])
