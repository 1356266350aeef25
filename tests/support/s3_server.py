"""A local S3: moto's server as a process of its own, so that commands and worker processes can reach it too."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

START_TIMEOUT_S = 60.0


@contextmanager
def running_s3_server() -> Iterator[str]:
    """Yield the endpoint of a new, empty S3 on 127.0.0.1; it and what it holds are gone after."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_it_answers(server, endpoint)
        yield endpoint
    finally:
        server.kill()
        server.wait()


def _wait_until_it_answers(server: subprocess.Popen[bytes], endpoint: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the local S3 server at {endpoint} did not answer within {START_TIMEOUT_S:.0f} s")


def s3_environment(endpoint: str) -> dict[str, str]:
    """Return the usual AWS variables that lead s3fs, in this process and in children, to ``endpoint``."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def new_bucket(endpoint: str, name: str) -> str:
    """Create the bucket ``name`` and return its URI."""
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    return f"s3://{name}"
