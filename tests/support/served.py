"""``tomeflow serve`` as a user starts it, on a free port, with a record of every name that any process looks up."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.command import command

# Starting a server, importing the flows and starting a worker, on a machine that does other things as well.
START_TIMEOUT_S = 300
RUN_TIMEOUT_S = 600
TESTS = Path(__file__).resolve().parents[1]
DIGITIZE = "digitize-document/digitize"
ENDS = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
# Of the end of each log, where something went wrong.
TOLD_CHARACTERS = 2000

RECORDER = '''\
"""Writes down, beside itself, every name that this process wants to have resolved; scripts the model if asked to."""
import os, socket, sys
_folder = os.path.dirname(__file__)
_command = open("/proc/self/cmdline").read().replace("\\0", " ")
def _recording(function):
    def resolve(host, *arguments, **options):
        with open(os.path.join(_folder, f"lookups-{os.getpid()}"), "a") as record:
            record.write(f"{host!r} {_command}\\n")
        return function(host, *arguments, **options)
    return resolve
_recording(lambda host: None)(None)
for _name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
    setattr(socket, _name, _recording(getattr(socket, _name)))
if "SCRIPTED_FOLDER" in os.environ and "flows.execution.steps" in sys.orig_argv:
    from support import scripted_steps
    scripted_steps.install()
'''


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], Any], timeout_s: float, what: str | Callable[[], str] = "") -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.2)
    raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what or condition}")


class Served:
    """One ``tomeflow serve`` on one output folder; may be killed and started again."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.output = folder / "out"
        self.home = self.output / ".tomeflow" / "prefect"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._recorder = folder / "recorder"
        self._recorder.mkdir()
        (self._recorder / "sitecustomize.py").write_text(RECORDER)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        path = os.pathsep.join(
            filter(None, [str(self._recorder), str(Path.cwd()), str(TESTS), os.environ.get("PYTHONPATH")])
        )
        # Not activated, as `make test` and cron run it: `python` on the path is another one, or none.
        self.environment = {**inherited, **environment, "PYTHONPATH": path, "PATH": os.defpath}
        self.auth = environment.get("PREFECT_SERVER_API_AUTH_STRING")
        self.process: subprocess.Popen[str] | None = None
        self.log = folder / "serve.log"

    def start(self, *options: str) -> None:
        arguments = command("serve", "--port", str(self.port), "-o", self.output, *options)
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                arguments, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        line = self.process.stdout.readline()
        assert line.startswith(self.url), f"{line}{self.log.read_text()}{self.logs()}"

    def logs(self) -> str:
        logs = sorted(self.home.glob("*.log"))
        return "\n".join(path.read_text(errors="replace")[-TOLD_CHARACTERS:] for path in logs)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.process.stdout.close()
        return code

    def processes(self, containing: str = "") -> list[int]:
        """Every living process that this one, or an earlier one on this folder, has started."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                ours = str(self.home).encode() in (entry / "environ").read_bytes()
                arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                is_alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
            except OSError:
                continue
            if ours and is_alive and containing in arguments:
                found.append(int(entry.name))
        return found

    def lookups(self) -> list[tuple[str, str]]:
        """(name, arguments of the process) of every name that was to be resolved."""
        lines = [line for path in self._recorder.glob("lookups-*") for line in path.read_text().splitlines()]
        return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]

    def ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        """One request to the server's API; as of Prefect's own clients, another if the database was busy (503)."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.authorization()}
        request = urllib.request.Request(f"{self.url}/api{path}", data, headers, method=method)
        for pause_s in (1, 2, 4, 8, None):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    content = answer.read()
                    return json.loads(content) if content else None
            except urllib.error.HTTPError as error:
                if error.code != 503 or pause_s is None:
                    raise
                time.sleep(pause_s)
        return None

    def authorization(self) -> dict[str, str]:
        """The header with the password, if there is one."""
        return {"Authorization": f"Basic {b64encode(self.auth.encode()).decode()}"} if self.auth else {}

    def refusal(self, path: str, body: object = None, method: str | None = None) -> tuple[int, str]:
        """The status and the reason of a request that must be refused."""
        try:
            self.ask(path, body, method)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        raise AssertionError(f"{body} was accepted")

    def deployment(self, name: str = DIGITIZE) -> dict[str, Any]:
        return self.ask(f"/deployments/name/{name}")

    def start_run(self, name: str = DIGITIZE, /, **parameters: object) -> str:
        """Start a deployed flow and return the run's id."""
        created = f"/deployments/{self.deployment(name)['id']}/create_flow_run"
        return str(self.ask(created, {"parameters": parameters, "state": {"type": "SCHEDULED"}})["id"])

    def state(self, run_id: str) -> dict[str, Any]:
        state: dict[str, Any] = self.ask(f"/flow_runs/{run_id}")["state"]
        return state

    def wait_for(self, run_id: str, wanted: str, timeout_s: float = RUN_TIMEOUT_S) -> dict[str, Any]:
        """Wait until the run's state is ``wanted``; fail if it ends otherwise, with all that is known."""
        state = until(
            lambda: (s := self.state(run_id))["type"] in {wanted, *ENDS} and s, timeout_s, lambda: self.story(run_id)
        )
        assert state["type"] == wanted, self.story(run_id)
        return state

    def story(self, run_id: str) -> str:
        """What the server and the processes say of a run, for whoever has to find out what went wrong."""
        state = self.state(run_id)
        lines = [f"{state['name']}: {state['message']}"]
        logs = {"limit": 30, "sort": "TIMESTAMP_DESC", "logs": {"flow_run_id": {"any_": [run_id]}}}
        lines += [f"  {entry['message']}" for entry in reversed(self.ask("/logs/filter", logs))]
        return "\n".join([*lines, self.logs(), self.log.read_text()[-TOLD_CHARACTERS:]])
