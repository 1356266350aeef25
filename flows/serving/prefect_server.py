"""Prefect's server as a child process, and an API for one command: a server that is there, or a private one.

Prefect's ephemeral server survives a killed parent and prints to standard output; these listen on 127.0.0.1
unless told otherwise, keep their database in a folder of ours, and end when their parent does.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from data_contracts.errors import ConfigError, OutOfMemory, ServerUnavailable, TomeflowError
from data_contracts.out_of_memory import is_out_of_memory, memory_bound
from flows.serving.parent_watchdog import child_environment
from flows.serving.prefect_database import ready_database
from flows.settings import (
    CLIENT_AUTH_NAME,
    LISTENING_HOST_NAME,
    SERVER_AUTH_NAME,
    authorization,
    bracketed,
    say_auth,
    told_auth,
)
from tasks import storage

START_TIMEOUT_S = 120.0
POLL_S = 0.1
# A killed flow may leave its server waiting on a client; it is asked to stop, then made to.
STOP_TIMEOUT_S = 5.0
_LOG_HEAD = "--- a server starts: "
_ERROR_LINE = re.compile(r"[\w.]+(Error|Exception): ")
"""The end of a traceback; what follows it in a log says less."""


# Nobody looks at a private server's logs and events, and the last of them would race its end, which is an error to
# Prefect's own machinery; errors are ours to print.
_QUIET_CLIENT = {
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
}
_PRIVATE_SERVER = {"PREFECT__SERVER_EPHEMERAL": "1", "PREFECT_UI_ENABLED": "0"}


@contextmanager
def prefect_api(work_folder: Path, api_url: str | None) -> Iterator[str]:
    """Yield the URL of a Prefect API and point this process at it: the user's, the served one, or a private one.

    A private server ends with the block.

    Must be entered before prefect is imported, since Prefect reads its settings from the environment then.

    Raises:
        ServerUnavailable: the private server ended or did not answer in time; the message names its log.
        OutOfMemory: there is not enough memory for it.
        StorageUnavailable: nothing can be written below ``work_folder``.
    """
    if api_url:
        yield api_url
        return
    home = (work_folder / "prefect").resolve()
    storage.open_local(log_file(home), "ab").close()  # where nothing can be written is told before anything starts
    if served := served_api(home):
        say_auth(told_auth())
        _refuse_unknown_password(served)
        os.environ["PREFECT_API_URL"] = served
        try:
            yield served
        finally:
            del os.environ["PREFECT_API_URL"]
        return
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    os.environ |= {"PREFECT_HOME": str(home), "PREFECT_API_URL": url, **_QUIET_CLIENT}
    try:
        server = start_ready_server(home, "127.0.0.1", port, _PRIVATE_SERVER, url)
    except BaseException:
        del os.environ["PREFECT_API_URL"]
        raise
    try:
        yield url
    except Exception as error:
        if server.poll() is not None and not isinstance(error, TomeflowError):
            raise _ended(server, log_file(home), "meanwhile") from error
        raise
    finally:
        stop_server(server)
        del os.environ["PREFECT_API_URL"]


def served_api(home: Path) -> str | None:
    """Return the URL of the server that ``tomeflow serve`` keeps in ``home``, while it does: two must not share one."""
    try:
        with serve_lock(home).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return serve_lock(home).read_text() or None
    return None


def serve_lock(home: Path) -> Path:
    """Return the file that ``tomeflow serve`` locks while it lives; the URL of its server stands in it."""
    return home / "serve.lock"


def log_file(home: Path) -> Path:
    """Return where a server of ours writes its log."""
    return home / "server.log"


def start_ready_server(
    home: Path, host: str, port: int, environment: dict[str, str], url: str
) -> subprocess.Popen[bytes]:
    """Start a server on a database that is migrated, and return it once it answers at ``url``.

    Raises:
        ServerUnavailable: it ended or did not answer in time; the message names its log.
        MigrationFailed: its database cannot be brought to this version.
        OutOfMemory: there is no memory for it.
        StorageUnavailable: nothing can be written there.
    """
    with ready_database(home):
        server = start_server(home, host, port, environment)
        try:
            wait_until_healthy(server, url, log_file(home))
        except BaseException:
            stop_server(server)
            raise
    return server


def start_server(home: Path, host: str, port: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a server that keeps its database in ``home``; it ends when this process does.

    Raises:
        StorageUnavailable: nothing can be written there.
    """
    log_path = log_file(home)
    with storage.storage_errors(str(log_path), "write"), storage.open_local(log_path, "ab") as log:
        log.write(f"{_LOG_HEAD}{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n".encode())
    listen = ["--host", host, "--port", str(port), "--log-level", "error", "--lifespan", "on"]
    # For pages of others the guard answers nothing; Prefect would tell every browser that they may.
    own = {LISTENING_HOST_NAME: host, "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://{bracketed(host)}:{port}"}
    inherited = child_environment()
    inherited.pop(SERVER_AUTH_NAME, None)  # whose server takes a password says so
    with log_path.open("ab") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "flows.serving.parent_watchdog",
                "uvicorn",
                *listen,
                "--factory",
                "flows.serving.server_app:create_app",
            ],
            env={**inherited, "PREFECT_HOME": str(home), **own, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # an interrupt from the keyboard is ours to handle, in order
        )


def wait_until_healthy(server: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    """Return once the server answers.

    Raises:
        ServerUnavailable: it ended or did not answer in time; the message names its log.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise _ended(server, log_path, "while it started")
        try:
            return _ask_for_health(url)
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_S)
    raise ServerUnavailable(
        f"the Prefect server did not answer within {START_TIMEOUT_S:.0f} s. "
        f"Its log is {log_path}; set PREFECT_API_URL to use a server of your own."
    )


def _ended(server: subprocess.Popen[bytes], log_path: Path, when: str) -> TomeflowError:
    """Return the error that says why the server has ended."""
    what = f"the Prefect server ended with code {server.returncode} {when}. {_last_words(log_path)}"
    if is_out_of_memory("\n".join(_written(log_path))):
        return OutOfMemory(f"there is not enough memory: {what} {memory_bound()}Its log is {log_path}.")
    return ServerUnavailable(f"{what} Its log is {log_path}{storage.room_left(str(log_path))}")


def _written(log_path: Path) -> list[str]:
    """Return what the server that was started last has written."""
    return log_path.read_text(encoding="utf-8", errors="replace").rpartition(_LOG_HEAD)[2].splitlines()[1:]


def _ask_for_health(url: str) -> None:
    """Return if the server at ``url`` answers; says the password of this process, if there is one."""
    with urllib.request.urlopen(urllib.request.Request(f"{url}/health", headers=authorization()), timeout=5):
        pass


def _refuse_unknown_password(served: str) -> None:
    """Refuse to go on where ``tomeflow serve`` has a password that this process was not told."""
    with suppress(OSError):  # any other trouble is told where it is met
        try:
            _ask_for_health(served)
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.UNAUTHORIZED:
                raise ConfigError(
                    f"the server at {served} asks for a password: set {CLIENT_AUTH_NAME} to the user:password that "
                    "tomeflow serve was started with."
                ) from None


def _last_words(log_path: Path) -> str:
    """Return the last error that the server that was started last has written to its log, or its last line."""
    written = _written(log_path)
    errors = [line for line in written if _ERROR_LINE.match(line)] or [line.strip() for line in written if line.strip()]
    return f"It said last: {errors[-1]}." if errors else "It wrote nothing to its log, as on a full disk."


def stop_server(server: subprocess.Popen[bytes]) -> None:
    """End the server, politely first."""
    server.terminate()
    try:
        server.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
