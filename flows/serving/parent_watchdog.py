"""Runs a module as ``python -m`` does, in a process that ends when its parent does, however the parent ends.

``python -m flows.serving.parent_watchdog MODULE ARGUMENT...``. A killed parent cannot end its children, so they watch
it: nothing that tomeflow starts outlives the command that started it.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time

from flows.settings import PARENT_PID_NAME, parent_pid, search_path

POLL_S = 0.5


def end_with_parent() -> None:
    """Start watching the parent; children that do the same will watch this process."""
    # Named by the parent itself, so that one that dies while this process starts is noticed too.
    threading.Thread(target=_watch, args=(parent_pid() or os.getppid(),), daemon=True).start()
    os.environ[PARENT_PID_NAME] = str(os.getpid())


def child_environment() -> dict[str, str]:
    """Return this process's environment for a child that runs under a parent_watchdog.

    With the safe path: the folder in which it works is one of scans, and a file in it must not pass for a module.
    """
    return {**os.environ, "PATH": search_path(), "PYTHONSAFEPATH": "1", PARENT_PID_NAME: str(os.getpid())}


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os._exit(0)


if __name__ == "__main__":
    end_with_parent()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
