"""The process of one flow run under a worker: Prefect's engine, under a parent watchdog and a liveness lock.

What the deployments name as their command. When the worker dies, the run's process ends too, and its lock file
tells the next ``tomeflow serve`` to put the run back into the queue.
"""

from __future__ import annotations

import runpy
from contextlib import nullcontext

from flows.serving.liveness_locks import locked_while_running
from flows.serving.parent_watchdog import end_with_parent
from flows.settings import flow_run_id, locks_folder, set_library_defaults


def main() -> None:
    """Run the flow run that the worker's environment names."""
    end_with_parent()
    set_library_defaults()
    locks = locks_folder()
    with locked_while_running(locks, flow_run_id()) if locks else nullcontext():
        runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
