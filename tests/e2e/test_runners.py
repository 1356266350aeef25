"""Encoding on a Dask cluster of this machine: the same bytes, also when a worker is killed.

What the killed worker was at, and what it had done but not yet handed over, is done again by others: Dask keeps
results where they were made.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.command import RUN_TIMEOUT_S, command, run
from support.served import until

from flows.sample import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

PAGES = 6
# What the command line of a worker contains, and no other process of the run.
WORKER = {"dask": "multiprocessing.spawn"}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("sample") / "sample.pdf", PAGES, seed=8)


@pytest.fixture(scope="module")
def on_threads(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    output = tmp_path_factory.mktemp("threads")
    done = run("run", sample, "-o", output, "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["documents"]
    return (Path(document["output"]) / "pages.jsonl").read_bytes()


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


@pytest.mark.parametrize("runner", ["dask"])
def test_a_killed_worker_stops_no_run_and_changes_no_byte(
    runner: str, sample: Path, on_threads: bytes, tmp_path: Path
) -> None:
    pytest.importorskip(f"prefect_{runner}", reason=f"the extra {runner} is not installed")
    arguments = command("run", sample, "-o", tmp_path, "--chunk-pages", "1", "--runner", runner, "--json")
    results = tmp_path / ".tomeflow" / "results"
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        until(lambda: any(results.rglob("encode-*")), RUN_TIMEOUT_S, "the first encoded chunk")
        workers = [pid for pid in processes_below(running.pid) if WORKER[runner] in command_line(pid)]
        os.kill(workers[0], signal.SIGKILL)
        encoded = len(list(results.rglob("encode-*")))
        below = processes_below(running.pid)
        said, complaints = running.communicate(timeout=RUN_TIMEOUT_S)
    assert running.returncode == 0, complaints
    assert encoded < PAGES, "it was killed after the work was done"
    (document,) = json.loads(said)["documents"]
    assert (Path(document["output"]) / "pages.jsonl").read_bytes() == on_threads
    until(lambda: not [pid for pid in below if "-m flows" in command_line(pid)], 30, "a process outlived its run")
