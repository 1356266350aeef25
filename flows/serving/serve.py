"""``tomeflow serve``: the lasting Prefect server with its UI, a worker and the deployments, on this machine.

Server and worker are watched: one that ends is started again, and a run whose process died is put back into the
queue. None outlives this command, however it ends; runs that die with it go on when it is started again.
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

from data_contracts.errors import ConfigError, ServerUnavailable
from flows.serving.liveness_locks import interrupted_runs
from flows.serving.parent_watchdog import child_environment
from flows.serving.prefect_server import log_file, serve_lock, start_ready_server, stop_server
from flows.settings import (
    CLIENT_AUTH_NAME,
    LOCKS_FOLDER_NAME,
    LOOPBACK_HOSTS,
    SERVED_OUTPUT_NAME,
    SERVER_AUTH_NAME,
    Settings,
    bracketed,
    read_settings,
    say_auth,
)
from tasks import storage

WATCH_S = 1.0
# A child that ends at once must not be started in a tight loop.
RESTART_PAUSE_S = 5.0
# A killed process is gone once the disk has let go of it.
END_TIMEOUT_S = 10.0
MOST_LOG_BYTES = 20_000_000

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_SERVER = {
    "PREFECT_SERVER_UI_API_URL": "/api",  # else the pages look for their server on port 4200, whatever --port says
}
_WORKER = {
    "PREFECT_WORKER_QUERY_SECONDS": "2",  # a person who clicks "run" waits for it; the server is on this machine
    "PREFECT_LOGGING_EXTRA_LOGGERS": "tomeflow.digitize,tomeflow.encode,tomeflow.ingest,tomeflow.backfill",
    "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "WARNING",  # a line for each finished task is noise
}


class Served:
    """The server, and a worker for its pool. Invariant: every child ends when this process does."""

    def __init__(self, settings: Settings, host: str, port: int, at_once: int) -> None:
        """Start nothing yet. ``at_once``: documents that this machine digitizes side by side."""
        self.ui_url = f"http://{bracketed(_EVERY_ADDRESS.get(host, host))}:{port}"
        self._output = settings.absolute_output
        self._home = settings.prefect_home
        self._locks = self._home / "running"
        self._host, self._port, self._at_once = host, port, at_once
        self._auth = settings.server_auth
        self._environment = {
            "PREFECT_HOME": str(self._home),
            "PREFECT_API_URL": f"{self.ui_url}/api",
            LOCKS_FOLDER_NAME: str(self._locks),
            SERVED_OUTPUT_NAME: self._output,
        }
        if self._auth:
            self._environment[CLIENT_AUTH_NAME] = self._auth
        self._server: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, tell it what tomeflow needs, then start the worker.

        Raises:
            ServerUnavailable: the server did not come up, or did not take the deployments.
        """
        self._start_server()
        self._register()
        self._start_worker()

    def watch(self) -> None:
        """Start again what ends, and have runs go on that were cut off; returns never."""
        while True:
            time.sleep(WATCH_S)
            if self._server is not None and self._server.poll() is not None:
                self._say("the server ended; starting it again")
                self._start_server()
            if self._worker is not None and self._worker.poll() is not None:
                self._say("the worker ended; starting it again")
                time.sleep(RESTART_PAUSE_S)
                self._start_worker()
            if interrupted_runs(self._locks):
                self._say("a run was cut off; it goes on from its checkpoints")
                if failure := self._in_a_process("flows.serving.resumption"):
                    self._say(f"it could not be put into the queue yet:\n{failure}")
                    time.sleep(RESTART_PAUSE_S)

    def stop(self) -> None:
        """End every child and all that they started. Runs are cut off, not failed: they go on with the next start."""
        # Found before any ends: what has lost its parent ends by its parent_watchdog too, but only after this process.
        descendants = psutil.Process().children(recursive=True)
        for process in descendants:
            if self._server is None or process.pid != self._server.pid:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        if self._server is not None:
            stop_server(self._server)
        psutil.wait_procs(descendants, timeout=END_TIMEOUT_S)

    def _start_server(self) -> None:
        _shorten(log_file(self._home))
        ours = {**self._environment, **_SERVER, "PREFECT_UI_STATIC_DIRECTORY": str(self._home / "ui")}
        if self._auth:
            ours[SERVER_AUTH_NAME] = self._auth
        self._server = start_ready_server(self._home, self._host, self._port, ours, f"{self.ui_url}/api")

    def _register(self) -> None:
        if failure := self._in_a_process("flows.serving.registration", self._output, str(Path.cwd())):
            raise ServerUnavailable(f"the deployments could not be registered:\n{failure}")

    def _in_a_process(self, module: str, *arguments: str) -> str:
        """Run a module that talks to the server; return what it said if it failed, else nothing."""
        command = [sys.executable, "-m", "flows.serving.parent_watchdog", module, *arguments]
        environment = {**child_environment(), **self._environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return f"{done.stdout}{done.stderr}\nexit code {done.returncode}" if done.returncode else ""

    def _start_worker(self) -> None:
        name = f"{socket.gethostname()}-{self._port}"
        pool = ["--pool", "tomeflow", "--type", "process", "--name", name, "--limit", str(self._at_once)]
        log_path = self._home / "worker.log"
        _shorten(log_path)
        with log_path.open("ab") as log:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "flows.serving.parent_watchdog", "prefect", "worker", "start", *pool],
                env={**child_environment(), **self._environment, **_WORKER},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt from the keyboard is ours to handle, in order
            )

    @staticmethod
    def _say(text: str) -> None:
        print(f"tomeflow: {text}", file=sys.stderr, flush=True)


def _shorten(log: Path) -> None:
    """Begin a log anew when it has grown large; the one before is kept."""
    if log.exists() and log.stat().st_size > MOST_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))


@contextmanager
def _only_one(home: Path) -> Iterator[IO[str]]:
    """Refuse a second ``tomeflow serve`` on one home; the kernel's lock dies with its holder."""
    with storage.open_local(serve_lock(home), "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another tomeflow serve works in {home}: use it, or end it first.") from None
        lock.truncate(0)
        yield lock


def _refuse_taken_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(f"{host}:{port} cannot be used: {error.strerror}. Name another with --port.") from error


def _refuse_an_open_door(host: str, auth: str | None) -> None:
    """Refuse to listen to other machines without a password: whoever is answered may have documents read and written.

    Raises:
        ConfigError: as said, or what is set is no user and password.
    """
    if auth is not None and not (auth.isascii() and auth.isprintable() and all(auth.partition(":"))):
        raise ConfigError(  # Prefect compares nothing else
            f"{SERVER_AUTH_NAME} must be user:password in ASCII, with something on both sides of the colon."
        )
    if auth is None and host not in LOOPBACK_HOSTS:
        raise ConfigError(
            f"--host {host} would let everybody in who can reach this machine: set {SERVER_AUTH_NAME}=user:password "
            "in the environment first, or leave --host at 127.0.0.1."
        )


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(options: argparse.Namespace) -> int:
    """Serve until interrupted or terminated, then return 0."""
    settings = read_settings(options.output)
    if settings.prefect_api_url:
        raise ConfigError(
            f"PREFECT_API_URL is set to {settings.prefect_api_url}: that server is used already. Unset it to have one "
            "of tomeflow's own, or see deployments/README.md for how to work for that one."
        )
    _refuse_an_open_door(options.host, settings.server_auth)
    say_auth(settings.server_auth)
    served = Served(settings, options.host, options.port, options.at_once)
    signal.signal(signal.SIGTERM, _end)
    with _only_one(settings.prefect_home) as lock:
        _refuse_taken_port(options.host, options.port)
        try:
            served.start()
            print(f"{served.ui_url}/api", end="", file=lock, flush=True)  # for `tomeflow run`
            print(f"{served.ui_url}  (Ctrl-C ends it; {settings.prefect_home} keeps everything)", flush=True)
            served.watch()
        except KeyboardInterrupt:
            return 0
        finally:
            served.stop()
    return 0
