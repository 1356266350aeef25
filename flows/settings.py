"""What the machine decides, not the document: places, endpoints, secrets. The only reader of the environment.

Nothing here may enter a checkpoint key. The S3 endpoint and keys are read by s3fs itself from the usual
AWS variables.
"""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from data_contracts.errors import ConfigError
from data_contracts.formats.manifest import WORK_FOLDER

PARENT_PID_NAME = "TOMEFLOW_PARENT_PID"
SERVED_OUTPUT_NAME = "TOMEFLOW_SERVED_OUTPUT"
FILES_PATH = "tomeflow"
LOCKS_FOLDER_NAME = "TOMEFLOW_LOCKS_FOLDER"
LISTENING_HOST_NAME = "TOMEFLOW_LISTENING_HOST"
SERVER_AUTH_NAME = "PREFECT_SERVER_API_AUTH_STRING"
CLIENT_AUTH_NAME = "PREFECT_API_AUTH_STRING"
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
OUTPUT_DIGEST_CHARACTERS = 12

HEARTBEAT_S = 30
"""Between two signs of life of a run: the shortest that Prefect takes. Its default outlasts ``SILENCE_S``."""

# Neither the orchestrator nor the validator may call home.
_LIBRARY_DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "GX_ANALYTICS_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "OPENCV_LOG_LEVEL": "ERROR",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
}


@dataclass(frozen=True)
class Settings:
    """Where this process works."""

    output: str
    prefect_api_url: str | None
    remote_work: Path
    given_prefect_home: Path | None
    webhook_url: str | None = field(repr=False)
    server_auth: str | None = field(default=None, repr=False)
    """``user:password`` of the server that ``tomeflow serve`` starts."""

    @property
    def checkpoints(self) -> str:
        """URI below which results, features and states lie: beside what is published, for any machine to go on."""
        return f"{self.output.rstrip('/')}/{WORK_FOLDER}"

    @property
    def work_folder(self) -> Path:
        """Local folder of this machine: spool, locks, warehouse, Prefect's home.

        The same as ``checkpoints`` if the output is local; else a folder of its own for each output.
        """
        if not is_remote(self.output):
            return Path(self.output.removeprefix("file://")) / WORK_FOLDER
        digest = hashlib.sha256(self.output.rstrip("/").encode()).hexdigest()
        return self.remote_work / f"{PurePosixPath(self.output).name}-{digest[:OUTPUT_DIGEST_CHARACTERS]}"

    @property
    def prefect_home(self) -> Path:
        """Folder of the lasting server's database and logs."""
        return (self.given_prefect_home or self.work_folder / "prefect").resolve()

    @property
    def absolute_output(self) -> str:
        """The output for processes that work in another folder."""
        return self.output if is_remote(self.output) else _resolved(self.output)


def is_remote(uri: str) -> bool:
    """Return whether ``uri`` names something that is not on this machine's file system."""
    return "://" in uri and not uri.startswith("file://")


def read_settings(output: str) -> Settings:
    """Return the settings of this process for one output folder.

    Raises:
        ConfigError: this process runs for ``tomeflow serve``, and ``output`` is another one than is served.
    """
    _refuse_another_output(output)
    return Settings(
        output=output,
        prefect_api_url=os.environ.get("PREFECT_API_URL"),
        remote_work=Path(os.environ.get("TOMEFLOW_WORK") or cache_folder()),
        given_prefect_home=_path("PREFECT_HOME"),
        webhook_url=os.environ.get("TOMEFLOW_WEBHOOK_URL"),
        server_auth=os.environ.get(SERVER_AUTH_NAME) or None,
    )


def cache_folder() -> Path:
    """Return this user's folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tomeflow"


def has_own_database() -> bool:
    """Return whether the user has named a database for Prefect's server, which then is theirs to look after."""
    names = ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
    return any(os.environ.get(name) for name in names)


def _refuse_another_output(output: str) -> None:
    """Hold runs that are asked for over a network to one place to write to, whatever parameters they bring."""
    served = os.environ.get(SERVED_OUTPUT_NAME)
    if served and _resolved(output) != _resolved(served):
        raise ConfigError(f"output {output!r}: runs of this server write to {served} only. Leave output as it is.")


def _resolved(output: str) -> str:
    return output.rstrip("/") if is_remote(output) else str(Path(output.removeprefix("file://")).resolve())


def _path(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value) if value else None


def search_path() -> str:
    """Return the search path on which ``python`` is this one, whether its environment was activated or not."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def parent_pid() -> int | None:
    """Return the process that started this one under a parent_watchdog, if it said so."""
    pid = os.environ.get(PARENT_PID_NAME)
    return int(pid) if pid else None


def locks_folder() -> Path | None:
    """Return where a run locks a file while it is alive; None under a worker that was given no folder."""
    return _path(LOCKS_FOLDER_NAME)


def served_folders() -> dict[str, Path]:
    """Return name -> folder of what ``tomeflow serve`` shows in the browser; nothing elsewhere."""
    output = os.environ.get(SERVED_OUTPUT_NAME)
    if not output or is_remote(output):
        return {}
    return {"files": Path(output), "quarantine": Path(output) / WORK_FOLDER / "quarantine"}


def served_url(path: Path) -> str | None:
    """Return where the browser finds ``path``; None if no server of ours shows it."""
    base = os.environ.get("PREFECT_API_URL", "").removesuffix("/api")
    for name, folder in served_folders().items():
        if path.resolve().is_relative_to(folder) and not _is_hidden(path.resolve().relative_to(folder)):
            return f"{base}/{FILES_PATH}/{name}/{quote(path.resolve().relative_to(folder).as_posix())}"
    return None


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def listens_to_this_machine_alone() -> bool:
    """Return whether the server that this process is listens to this machine only."""
    return os.environ.get(LISTENING_HOST_NAME, LOOPBACK_HOSTS[0]) in LOOPBACK_HOSTS


def server_names() -> frozenset[str]:
    """Return the host names, in lower case, under which the server that this process is may be asked."""
    names = {*LOOPBACK_HOSTS, *os.environ.get("TOMEFLOW_SERVE_NAMES", "").split(",")}
    if not listens_to_this_machine_alone():
        names |= {os.environ[LISTENING_HOST_NAME], socket.gethostname()}
    return frozenset(bracketed(name.strip().lower()) for name in names if name.strip())


def told_auth() -> str | None:
    """Return the ``user:password`` that this process was told to say to servers, or to start one with."""
    return os.environ.get(CLIENT_AUTH_NAME) or os.environ.get(SERVER_AUTH_NAME) or None


def say_auth(auth: str | None) -> None:
    """Have this process say ``auth`` to servers; None: nothing."""
    os.environ.pop(CLIENT_AUTH_NAME, None)
    if auth:
        os.environ[CLIENT_AUTH_NAME] = auth


def authorization() -> dict[str, str]:
    """Return the header with which this process names itself to a server; none if it has no password to say."""
    auth = os.environ.get(CLIENT_AUTH_NAME)
    return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"} if auth else {}


def bracketed(host: str) -> str:
    """Return a host as it stands in a URL."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def cluster_address(runner: str) -> str | None:
    """Return where the Dask scheduler or the Ray head listens; None: a cluster of the run's own."""
    return os.environ.get(f"TOMEFLOW_{runner.upper()}_ADDRESS")


def flow_run_id() -> str:
    """Return the run that Prefect's worker started this process for."""
    return os.environ["PREFECT__FLOW_RUN_ID"]


def set_library_defaults() -> None:
    """Have libraries call nobody, and runs say often enough that they live; must run before they are imported."""
    for name, value in _LIBRARY_DEFAULTS.items():
        os.environ.setdefault(name, value)
