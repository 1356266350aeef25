"""Encoding on a Dask and on a Ray cluster of this machine: the same bytes, and a killed worker costs its chunk only.

Dask keeps results where they were made, so it runs finished tasks of a dead worker again; they find their checkpoint.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support import scripted_run
from support.command import RUN_TIMEOUT_S, command
from support.scripted_run import executions, finished
from support.served import until
from support.sources import drawn_pdf

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

PAGES = 8
# What the command line of a worker contains, and no other process of the run. Of Ray's, the others are agents, whose
# end its raylet answers with its own.
WORKER = {"dask": r" -c from multiprocessing\.spawn", "ray": r"^ray::(encode|IDLE)"}
# In the middle: some pages are finished, and each of the two workers is at one.
SCRIPT = {"pause_s": 0.2, "encode 4": ["hold", 1], "encode 5": ["hold", 1]}


def processes_below(pid: int) -> list[int]:
    """Every descendant of ``pid``."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir() if int(path.name) != pid]
    for thread in threads:
        try:
            children += [int(child) for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
        except FileNotFoundError:
            continue
    below = []
    for child in children:
        try:
            below += [child, *processes_below(child)]
        except FileNotFoundError:
            continue
    return below


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.parametrize("runner", ["dask", "ray"])
def test_a_killed_worker_costs_its_chunk_and_changes_no_byte(runner: str, prefect_url: str, tmp_path: Path) -> None:
    pytest.importorskip(f"prefect_{runner}", reason=f"the extra {runner} is not installed")
    source = drawn_pdf(tmp_path / "book.pdf", [f"page {number}" for number in range(1, PAGES + 1)])
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    for folder in (calm, disturbed):
        folder.mkdir()
    (disturbed / "script.json").write_text(json.dumps(SCRIPT))
    options = ("--chunk-pages", "1", "--dpi", "50", "--no-gate", "--json")
    output = disturbed / "out"
    arguments = command("run", source, "-o", output, *options, "--runner", runner)
    environment = scripted_run.environment(disturbed, prefect_url)
    with subprocess.Popen(arguments, env=environment, stdout=-1, stderr=-1, text=True) as running:
        until(lambda: {"encode 4", "encode 5"} <= set(executions(disturbed)), RUN_TIMEOUT_S, "both workers at a page")
        workers = [pid for pid in processes_below(running.pid) if re.search(WORKER[runner], command_line(pid))]
        below = processes_below(running.pid)
        os.kill(workers[0], signal.SIGKILL)
        done, begun = finished(output), len(executions(disturbed))
        (disturbed / "go").touch()
        said, complaints = running.communicate(timeout=RUN_TIMEOUT_S)
    assert running.returncode == 0, complaints
    again = executions(disturbed)[begun:]
    assert any(page.startswith("encode") for page in done), "nothing was finished before"
    assert not done & set(again), "finished work was done twice"
    assert len({"encode 4", "encode 5"} & set(again)) == 1, "one worker was killed"
    (document,) = json.loads(said)["documents"]
    undisturbed = command("run", source, "-o", calm / "out", *options)
    reference = subprocess.run(
        undisturbed, env=scripted_run.environment(calm, prefect_url), capture_output=True, text=True, check=True
    )
    (expected,) = json.loads(reference.stdout)["documents"]
    assert (Path(document["output"]) / "pages.jsonl").read_bytes() == (
        Path(expected["output"]) / "pages.jsonl"
    ).read_bytes()
    until(lambda: not [pid for pid in below if "-m flows" in command_line(pid)], 30, "a process outlived its run")
