"""What ``tomeflow serve`` leaves behind when it ends: nothing, wherever its processes have put themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

# As a worker does with a flow run: a process in a session of its own, which no signal to the group reaches.
SERVE = """
import subprocess, sys
from flows.serving.serve import Served
from flows.settings import read_settings
served = Served(read_settings(sys.argv[1]), "127.0.0.1", 1, 1)
served._worker = subprocess.Popen(
    [sys.executable, "-c", "import subprocess as s; p = s.Popen(['sleep', '600'], start_new_session=True); "
     "print(p.pid, flush=True); p.wait()"],
    stdout=subprocess.PIPE, text=True, start_new_session=True,
)
print(served._worker.pid, served._worker.stdout.readline())
served.stop()
"""


def test_what_the_worker_started_in_a_session_of_its_own_ends_too(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SERVE, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    worker, its_child = (int(pid) for pid in done.stdout.split())
    assert not psutil.pid_exists(worker)
    assert not psutil.pid_exists(its_child) or psutil.Process(its_child).status() == psutil.STATUS_ZOMBIE
