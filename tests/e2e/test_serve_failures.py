"""What ``tomeflow serve`` does by itself when something goes wrong: runs go on, dead ones are freed, a webhook calls.

Its processes are killed while a scripted model reads forty pages; every page that is begun is counted.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support import scripted_run
from support.scripted_run import executions, finished
from support.served import Served, until
from support.sources import drawn_pdf
from support.webhook import Hook, listening

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

SECRET = "s3cr3t-path-of-the-hook"
PAGES = 40
SETTINGS = {"chunk_pages": 4, "reading": {"render": {"dpi": 50}}, "quality": {"gate": False}}
# One page more, for the run that nobody knows to be dead.
LOST = PAGES + 1
SEED = 20261130
VICTIMS = (("flow_process",), ("prefect worker",), ("uvicorn",), ("prefect worker", "flow_process"))
# Pages pass slowly enough that a kill up to a second late still finds most of the way ahead.
PAUSE_S = 0.1
LATEST_KILL_S = 0.5
# What is promised: heartbeats every 30 s, silence of 90 s, and what the server takes to notice.
FREED_WITHIN_S = 120


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with listening() as hook:
        yield hook


@pytest.fixture(scope="module")
def kills() -> list[tuple[int, tuple[str, ...]]]:
    """Who is killed while which page is decoded: each once, in some order, at some page of the next ten."""
    draw = random.Random(SEED)
    victims = draw.sample(VICTIMS, len(VICTIMS))
    return [(draw.randint(10 * quarter + 1, 10 * quarter + 8), who) for quarter, who in enumerate(victims)]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory, kills: list[tuple[int, tuple[str, ...]]]) -> Path:
    """The folder of the scripted model: it waits at every page where somebody is to be killed."""
    folder = tmp_path_factory.mktemp("script")
    held = {f"decode {page}": ["hold", len(VICTIMS)] for page, _ in kills}
    doubted = {f"decode {LOST}": ["doubt", 1]}
    (folder / "script.json").write_text(
        json.dumps({"pause_s": PAUSE_S, f"encode {LOST}": ["hold", 1], **held, **doubted})
    )
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, hook: Hook, script: Path) -> Iterator[Served]:
    environment = {"TOMEFLOW_WEBHOOK_URL": f"{hook.url}/{SECRET}", "SCRIPTED_FOLDER": str(script)}
    served = Served(tmp_path_factory.mktemp("served"), **environment)
    drawn_pdf(served.folder / "book.pdf", [f"page {number}" for number in range(1, LOST + 1)])
    served.start()
    yield served
    served.kill()


@pytest.fixture(scope="module")
def lost_run(served: Served, script: Path) -> tuple[str, datetime]:
    """A run that has died with its worker, on a machine that did not come back; and when that was."""
    run_id = served.start_run(source="book.pdf", config={**SETTINGS, "pages": str(LOST)})
    until(lambda: f"encode {LOST}" in executions(script), 300, lambda: served.story(run_id))
    (served.home / "running" / run_id).unlink()  # as if it had been another machine's
    kill(served, "prefect worker", "flow_process")
    return run_id, datetime.now(UTC)


def kill(served: Served, *victims: str) -> None:
    """Kill processes, and see those end that end with them."""
    dying = [pid for victim in victims for pid in served.processes(victim)]
    assert dying
    if victims != ("uvicorn",):
        dying += [pid for dependant in ("flow_process", "flows.execution.steps") for pid in served.processes(dependant)]
    for victim in victims:
        for pid in served.processes(victim):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not set(dying) & set(served.processes()), 60, f"something outlived {victims}")


def readings(output: Path) -> dict[str, bytes]:
    """Return what was published, but for the manifest, which has times."""
    (folder,) = {path.parent for path in output.glob("book-*/manifest.json")}
    return {name: (folder / name).read_bytes() for name in ("document.txt", "document.pdf", "pages.jsonl")}


def starts(served: Served, run_id: str) -> int:
    """How often the run was started; 0 while the server does not answer."""
    try:
        return int(served.ask(f"/flow_runs/{run_id}")["run_count"])
    except OSError:
        return 0


def test_whoever_is_killed_the_run_goes_on_does_nothing_twice_and_ends_with_the_same_bytes(
    served: Served,
    lost_run: tuple[str, datetime],
    kills: list[tuple[int, tuple[str, ...]]],
    script: Path,
    tmp_path: Path,
) -> None:
    print(f"seed {SEED}: {kills}")
    run_id = served.start_run(source="book.pdf", config={**SETTINGS, "pages": f"1-{PAGES}"})
    expected_starts, seen, moments = 1, len(executions(script)), random.Random(SEED)
    history: list[tuple[set[str], int]] = []
    for page, victims in kills:
        until(lambda: f"decode {page}" in executions(script)[seen:], 120, lambda: served.story(run_id))  # noqa: B023
        (script / f"go decode {page}").touch()
        time.sleep(moments.uniform(0, LATEST_KILL_S))
        kill(served, *victims)
        done = finished(served.output)
        seen = len(executions(script))
        history.append((done, seen))
        expected_starts += victims != ("uvicorn",)
        until(lambda: starts(served, run_id) >= expected_starts, 120, f"{victims}: it does not go on")  # noqa: B023
    served.wait_for(run_id, "COMPLETED")
    assert starts(served, run_id) == expected_starts
    for done, before in history:
        assert not done & set(executions(script)[before:]), "finished work was done twice"
    calm = scripted_run.start(
        [served.folder / "book.pdf"], tmp_path / "out", tmp_path, f"{served.url}/api", **SETTINGS, pages=f"1-{PAGES}"
    )
    _, err = calm.communicate(timeout=scripted_run.TIMEOUT_S)
    assert calm.returncode == 0, err
    assert readings(served.output) == readings(tmp_path / "out")


def test_a_failed_run_is_told_to_the_webhook_with_its_reason(served: Served, hook: Hook) -> None:
    run_id = served.start_run(source="missing.pdf")
    served.wait_for(run_id, "FAILED")
    call = until(lambda: [c for c in hook.calls if run_id in c[1]], 60, "the call of the webhook")[0]
    assert call[0] == f"/{SECRET}"
    told = json.loads(call[1])
    assert told["event"] == "prefect.flow-run.Failed"
    assert told["name"] == "missing.pdf"
    assert "missing.pdf" in told["message"]


def test_pages_kept_back_are_told_to_the_webhook_and_a_pause_for_want_of_memory_to_the_server(
    served: Served, hook: Hook, script: Path
) -> None:
    (script / "go").touch()
    (script / "short of memory").touch()
    quality = {"max_quarantined_ratio": 1.0}
    run_id = served.start_run(source="book.pdf", config={**SETTINGS, "pages": f"1,{LOST}", "quality": quality})
    served.wait_for(run_id, "COMPLETED")
    call = until(lambda: [c for c in hook.calls if "quarantined" in c[1]], 60, "the call of the webhook")[0]
    told = json.loads(call[1])
    assert told["resource"].startswith("tomeflow.document.book-")
    assert f"page {LOST}" in told["message"]
    (run,) = served.ask("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
    assert run["name"] == f"book.pdf, pages 1,{LOST}"
    paused = {"filter": {"event": {"name": ["tomeflow.document.loading_paused"]}}}
    event = until(lambda: served.ask("/events/filter", paused)["events"], 60, "the event of the pause")[0]
    assert event["resource"]["prefect.resource.id"] == told["resource"]
    assert event["payload"]["message"] == "page 41: loading ahead pauses, 100 % of memory is in use"


def test_an_archive_with_a_bad_document_is_a_failed_run_once_and_incomplete_from_then_on(
    served: Served, hook: Hook, script: Path
) -> None:
    (script / "go").touch()
    archive = served.folder / "archive"
    archive.mkdir()
    drawn_pdf(archive / "good.pdf", ["page 1"])
    (archive / "cut.pdf").write_bytes(b"%PDF-1.7 cut")
    parameters = {"prefix": "archive", "config": SETTINGS}
    met = served.start_run("ingest-archive/ingest", **parameters)
    state = served.wait_for(met, "FAILED")
    assert state["message"].startswith("1 published, 0 unchanged, 1 failed: cut.pdf is ")
    assert list(served.output.glob("good-*/manifest.json")), "what could be published is"
    (page,) = served.ask("/artifacts/latest/filter", {"artifacts": {"key": {"like_": "archive-archive-%"}}})
    assert "`cut.pdf`" in page["data"]
    assert f"tomeflow ingest archive -o {served.output} --retry-failed" in page["data"]
    until(lambda: [c for c in hook.calls if met in c[1] and "cut.pdf" in c[1]], 60, lambda: f"{hook.calls}")
    known = served.start_run("ingest-archive/ingest", **parameters)
    state = served.wait_for(known, "COMPLETED")
    assert (state["name"], state["message"][:38]) == ("Incomplete", "0 published, 1 unchanged, 1 failed: cu")
    assert not [c for c in hook.calls if known in c[1]], "nobody is told twice"


def test_a_run_that_died_unseen_is_freed_within_two_minutes(
    served: Served, hook: Hook, lost_run: tuple[str, datetime]
) -> None:
    run_id, killed = lost_run
    state = served.wait_for(run_id, "CRASHED", timeout_s=FREED_WITHIN_S)
    assert "no sign of life" in state["message"]
    assert (datetime.fromisoformat(state["timestamp"]) - killed).total_seconds() < FREED_WITHIN_S
    until(lambda: [c for c in hook.calls if "flow-run.Crashed" in c[1] and run_id in c[1]], 60, lambda: f"{hook.calls}")


def test_the_secret_of_the_webhook_stands_in_no_log_and_no_answer(served: Served) -> None:
    logs = [served.log, *served.home.glob("*.log")]
    assert not [path for path in logs if SECRET in path.read_text(errors="replace")]
    answers = [served.ask(f"/{what}/filter", {}) for what in ("logs", "block_documents", "automations", "deployments")]
    assert SECRET not in json.dumps(answers)
    assert any(block["name"] == "tomeflow-notify" for block in answers[1])
