"""What the machine decides, not the document: places, endpoints, secrets. The only reader of the environment.

Nothing here may enter a checkpoint key. The S3 endpoint and keys are read by s3fs itself from the usual
AWS variables.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

WORK_FOLDER_NAME = ".tomeflow"
OUTPUT_DIGEST_CHARACTERS = 12

# Neither the orchestrator nor the validator may call home; set before either is imported.
_QUIET_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "GX_ANALYTICS_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "OPENCV_LOG_LEVEL": "ERROR",
}


@dataclass(frozen=True)
class Settings:
    """Where this process works."""

    output: str
    prefect_api_url: str | None
    remote_work: Path

    @property
    def checkpoints(self) -> str:
        """URI below which results, features and states lie: beside what is published, for any machine to go on."""
        return f"{self.output.rstrip('/')}/{WORK_FOLDER_NAME}"

    @property
    def work_folder(self) -> Path:
        """Local folder of this machine: spool, locks, warehouse, Prefect's home.

        The same as ``checkpoints`` if the output is local; else a folder of its own for each output.
        """
        if not is_remote(self.output):
            return Path(self.output.removeprefix("file://")) / WORK_FOLDER_NAME
        digest = hashlib.sha256(self.output.rstrip("/").encode()).hexdigest()
        return self.remote_work / f"{PurePosixPath(self.output).name}-{digest[:OUTPUT_DIGEST_CHARACTERS]}"


def is_remote(uri: str) -> bool:
    """Return whether ``uri`` names something that is not on this machine's file system."""
    return "://" in uri and not uri.startswith("file://")


def read_settings(output: str) -> Settings:
    """Return the settings of this process for one output folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Settings(
        output=output,
        prefect_api_url=os.environ.get("PREFECT_API_URL"),
        remote_work=Path(os.environ.get("TOMEFLOW_WORK") or cache / "tomeflow"),
    )


def silence_telemetry() -> None:
    """Switch off telemetry of every library; must run before they are imported."""
    for name, value in _QUIET_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
