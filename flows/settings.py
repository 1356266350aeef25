"""What the machine decides, not the document: places, endpoints, secrets. The only reader of the environment.

Nothing here may enter a checkpoint key. The S3 endpoint and keys are read by s3fs itself from the usual
AWS variables.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

WORK_FOLDER_NAME = ".tomeflow"

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

    @property
    def work_folder(self) -> Path:
        """Results, features, states, spool and warehouse; beside what is published."""
        return Path(self.output) / WORK_FOLDER_NAME


def read_settings(output: str) -> Settings:
    """Return the settings of this process for one output folder."""
    return Settings(output=output, prefect_api_url=os.environ.get("PREFECT_API_URL"))


def silence_telemetry() -> None:
    """Switch off telemetry of every library; must run before they are imported."""
    for name, value in _QUIET_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
