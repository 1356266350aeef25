"""A Prefect API for one command: the user's own server if there is one, else a private child process.

Prefect's ephemeral server survives a killed parent and prints to standard output; this one listens on
127.0.0.1, keeps its database beside the output, and ends when its parent does, however the parent ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data_contracts.errors import TomeflowError

START_TIMEOUT_S = 120.0
POLL_S = 0.1
# A killed flow may leave its server waiting on a client; it is asked to stop, then made to.
STOP_TIMEOUT_S = 5.0

# Nobody looks at a private server's log store, and its last lines would race its end; errors are ours to print.
_QUIET_CLIENT = {"PREFECT_LOGGING_TO_API_ENABLED": "false", "PREFECT_LOGGING_LEVEL": "CRITICAL"}


class ServerUnavailable(TomeflowError):
    """The private Prefect server did not come up."""

    retryable = True
    exit_code = 51


@contextmanager
def prefect_api(work_folder: Path, api_url: str | None) -> Iterator[str]:
    """Yield the URL of a Prefect API and point this process at it; a private server ends with the block.

    Must be entered before prefect is imported, since Prefect reads its settings from the environment then.

    Raises:
        ServerUnavailable: the private server did not answer in time; the message names its log.
    """
    if api_url:
        yield api_url
        return
    home = (work_folder / "prefect").resolve()
    home.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    os.environ |= {"PREFECT_HOME": str(home), "PREFECT_API_URL": url, **_QUIET_CLIENT}
    log_path = home / "server.log"
    with log_path.open("ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "flows.prefect_server", str(port), str(os.getpid())],
            env={**os.environ, "PREFECT_UI_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_healthy(server, url, log_path)
        yield url
    finally:
        _stop(server)
        del os.environ["PREFECT_API_URL"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_healthy(server: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_S)
    raise ServerUnavailable(
        f"the private Prefect server did not answer within {START_TIMEOUT_S:.0f} s. "
        f"Its log is {log_path}; set PREFECT_API_URL to use a server of your own."
    )


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _end_with_parent(parent_pid: int) -> None:
    """End this process as soon as its parent is another one: the old parent died."""
    while os.getppid() == parent_pid:
        time.sleep(1.0)
    os._exit(0)


def _serve(port: int, parent_pid: int) -> None:
    threading.Thread(target=_end_with_parent, args=(parent_pid,), daemon=True).start()
    import uvicorn
    from prefect.server.api.server import create_app

    uvicorn.run(create_app(ephemeral=True), host="127.0.0.1", port=port, log_level="error", lifespan="on")


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
