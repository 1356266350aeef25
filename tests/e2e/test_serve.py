"""``tomeflow serve`` as it is used: a real server, worker and flow processes; started, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import command, run
from support.served import Served, until

from flows.sample.book import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PAGES = 4
LOCAL_NAMES = {"'127.0.0.1'", "'localhost'", "'::1'", "None"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    write_sample(served.folder / "sample.pdf", PAGES, seed=5)
    served.start()
    yield served
    if served.process.poll() is None:
        served.kill()


def published(served: Served) -> list[Path]:
    return sorted(path.parent for path in served.output.glob("*/manifest.json"))


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"source": "sample.pdf", "config": {"chunk_pages": 5000}}, "5000 is greater than the maximum of 1024"),
        ({"source": "sample.pdf", "config": {"chunk_page": 5}}, "chunk_page"),
        ({"source": "sample.pdf", "config": {"reading": {"model": "none"}}}, "'none' is not one of"),
        ({"source": ""}, "source"),
        ({}, "'source' is a required property"),
    ],
)
def test_the_server_refuses_a_wrong_parameter_with_the_reason(
    served: Served, parameters: dict[str, object], reason: str
) -> None:
    deployment = served.deployment()
    assert deployment["enforce_parameter_schema"] is True
    code, said = served.refusal(f"/deployments/{deployment['id']}/create_flow_run", {"parameters": parameters})
    assert code in (409, 422)
    assert reason in said


def test_the_schedule_is_paused_at_first_and_all_stays_as_a_person_set_it(served: Served) -> None:
    (schedule,) = served.deployment("ingest-archive/ingest")["schedules"]
    assert (schedule["active"], schedule["schedule"]["cron"]) == (False, "0 2 * * *")
    assert schedule["schedule"]["timezone"] == "UTC"
    place = f"/deployments/{schedule['deployment_id']}/schedules/{schedule['id']}"
    served.ask(place, {"schedule": {"cron": "30 3 * * 1", "timezone": "Europe/Berlin"}}, method="PATCH")
    edited = {
        "parameters": {"prefix": "scans", "output": "elsewhere"},
        "concurrency_limit": 3,
        "concurrency_options": {"collision_strategy": "CANCEL_NEW"},
    }
    served.ask(f"/deployments/{schedule['deployment_id']}", edited, method="PATCH")
    again = [sys.executable, "-m", "flows.serving.registration", str(served.output), str(served.folder)]
    environment = {**served.environment, "PREFECT_API_URL": f"{served.url}/api", "PREFECT_HOME": str(served.home)}
    done = subprocess.run(again, cwd=served.folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    deployment = served.deployment("ingest-archive/ingest")
    assert deployment["parameters"] == {"prefix": "scans", "output": str(served.output)}
    assert deployment["global_concurrency_limit"]["limit"] == 3
    assert deployment["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    (after,) = deployment["schedules"]
    assert (after["active"], after["schedule"]["cron"]) == (False, "30 3 * * 1")
    assert after["schedule"]["timezone"] == "Europe/Berlin"


def test_every_parameter_of_every_form_has_a_help_text(served: Served) -> None:
    for deployment in served.ask("/deployments/filter", {}):
        schema = deployment["parameter_openapi_schema"]
        for name, model in {"parameters": schema, **schema.get("definitions", {})}.items():
            for field, entry in model.get("properties", {}).items():
                assert entry.get("description") or "$ref" in entry, f"{deployment['name']}: {name}.{field}"


def test_a_run_cut_off_with_everything_else_goes_on_after_a_restart(served: Served) -> None:
    run_id = served.start_run(source="sample.pdf", config={"chunk_pages": 1})
    results = served.output / ".tomeflow" / "results"
    until(lambda: any(results.rglob("decode-*")), 600, "the first chunk")
    served.kill()
    until(lambda: not served.processes(), 30, "a process outlived tomeflow serve")
    finished = {path: path.stat().st_mtime_ns for path in results.rglob("decode-*")}
    assert len(finished) < PAGES
    served.start()
    served.wait_for(run_id, "COMPLETED")
    assert not [path for path, changed in finished.items() if path.stat().st_mtime_ns != changed]
    (folder,) = published(served)
    assert json.loads((folder / "manifest.json").read_text())["selected_pages"] == list(range(1, PAGES + 1))
    assert len(served.ask("/deployments/filter", {})) == len({d["name"] for d in served.ask("/deployments/filter", {})})
    assert len(served.ask("/automations/filter", {})) == 1


def test_a_run_says_what_it_is_about_and_shows_its_pages(served: Served) -> None:
    (run_,) = served.ask("/flow_runs/filter", {})
    (folder,) = published(served)
    assert run_["name"] == "sample.pdf"
    assert {"tomeflow", f"document:{folder.name}", "book:sample"} <= set(run_["tags"])
    artifacts = {a["key"]: a for a in served.ask("/artifacts/latest/filter", {})}
    assert set(artifacts) == {f"{folder.name}-{part}" for part in ("progress", "pages", "summary")}
    assert artifacts[f"{folder.name}-progress"]["data"] == 100
    rows = json.loads(artifacts[f"{folder.name}-pages"]["data"])
    assert [row["page"] for row in rows] == list(range(1, PAGES + 1))
    assert {row["status"] for row in rows} == {"text"}
    tasks = until(lambda: served.ask("/task_runs/filter", {"task_runs": {"tags": {"all_": ["chunk"]}}}), 30)
    assert all(f"document:{folder.name}" in task["tags"] for task in tasks)


def test_what_was_published_can_be_opened_and_nothing_hidden(served: Served) -> None:
    (folder,) = published(served)
    summary = served.ask("/artifacts/latest/filter", {"artifacts": {"key": {"any_": [f"{folder.name}-summary"]}}})[0]
    link = f"{served.url}/tomeflow/files/{folder.name}/document.txt"
    assert link in summary["data"]
    assert link.replace("document.txt", "report.html") in summary["data"]
    with urllib.request.urlopen(link, timeout=30) as answer:
        assert answer.read() == (folder / "document.txt").read_bytes()
    for hidden in (".tomeflow/prefect/prefect.db", f"{folder.name}/../.tomeflow/warehouse.duckdb", "%2e%74omeflow/"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{served.url}/tomeflow/files/{hidden}", timeout=30)


def test_the_log_of_a_run_is_short(served: Served) -> None:
    logs = [entry["message"] for entry in served.ask("/logs/filter", {"limit": 200})]
    assert any(message.endswith(f"pages {PAGES}-{PAGES} done") for message in logs)
    assert len(logs) <= 12 + 2 * PAGES, logs


def test_a_second_server_on_one_folder_is_refused(served: Served) -> None:
    again = subprocess.run(
        command("serve", "-o", served.output), cwd=served.folder, env=served.environment, capture_output=True, text=True
    )
    assert again.returncode == 2
    assert "another tomeflow serve" in again.stderr


def test_a_taken_port_is_refused(served: Served, tmp_path: Path) -> None:
    again = run("serve", "-o", tmp_path, "--port", str(served.port))
    assert again.returncode == 2
    assert f"127.0.0.1:{served.port} cannot be used" in again.stderr


def test_a_run_from_the_shell_uses_the_server_that_is_there(served: Served) -> None:
    done = run("run", served.folder / "sample.pdf", "-o", served.output, "--pages", "1", "--chunk-pages", "1")
    assert done.returncode == 0, done.stderr
    names = [run["name"] for run in served.ask("/flow_runs/filter", {})]
    assert "sample.pdf, pages 1" in names
    assert len(served.processes("uvicorn")) == 1


def test_prefect_yaml_deploys_to_a_server_and_its_runs_run(served: Served, tmp_path: Path) -> None:
    environment = {**served.environment, "PREFECT_API_URL": f"{served.url}/api", "PREFECT_HOME": str(tmp_path)}
    deploy = ["-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml"]
    done = subprocess.run([sys.executable, *deploy], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    deployment = served.deployment()
    assert deployment["job_variables"] == {}  # the pool says how its runs are started
    assert deployment["enforce_parameter_schema"] is True
    parameters = {"source": str(served.folder / "sample.pdf"), "output": str(served.output)}
    run_id = served.start_run(**parameters, config={"chunk_pages": 1})
    served.wait_for(run_id, "COMPLETED")


@pytest.mark.parametrize("part", ["uvicorn", "prefect worker"])
def test_a_part_that_is_killed_is_started_again(served: Served, part: str) -> None:
    (before,) = served.processes(part)
    os.kill(before, signal.SIGKILL)
    after = until(lambda: [pid for pid in served.processes(part) if pid != before], 120, part)
    assert len(after) == 1
    until(lambda: _answers(served), 120, "the server")


def _answers(served: Served) -> bool:
    try:
        return bool(served.ask("/health"))
    except OSError:
        return False


def test_no_process_asked_for_any_name_but_this_machine(served: Served) -> None:
    lookups = served.lookups()
    for part in ("uvicorn", "prefect worker", "flow_process", "flows.serving.registration"):
        assert any(part in arguments for _, arguments in lookups), f"{part} was not recorded"
    assert not [entry for entry in lookups if entry[0] not in LOCAL_NAMES]


def test_an_ordinary_end_leaves_no_process_and_exit_code_0(served: Served) -> None:
    source = write_sample(served.folder / "cut_off.pdf", PAGES, seed=6)
    run_id = served.start_run(source=str(source), output=str(served.output), config={"chunk_pages": 1})
    until(lambda: served.processes("flows.execution.steps"), 300, lambda: served.story(run_id))
    assert served.terminate() == 0
    left = served.processes()
    assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ") for pid in left]
