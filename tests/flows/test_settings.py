"""What tomeflow asks of libraries and of whoever types, seen from a process that starts as the command does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.automations import SILENCE_S
from flows.cli import main

READ = """
from flows.settings import set_library_defaults
set_library_defaults()
from prefect.settings import get_current_settings
print(get_current_settings().flows.heartbeat_frequency)
"""


def test_a_run_says_that_it_lives_three_times_in_the_silence_after_which_it_is_buried() -> None:
    told = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert int(told.stdout) * 3 <= SILENCE_S


IMPORT = """
from flows.settings import set_library_defaults
set_library_defaults()
import onnxruntime
"""


def test_onnx_runtime_leaves_no_identifier_of_the_machine_and_no_events_to_send(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", IMPORT], env=environment | {"HOME": str(tmp_path)}, check=True)
    assert list(tmp_path.rglob("*")) == [], "it keeps its device id and its queue in the home folder"


@pytest.mark.parametrize("command", ["run book.pdf", "ingest archive", "serve"])
def test_no_document_at_once_is_a_wrong_parameter(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--at-once=0"]) == 2
    assert "argument --at-once: 0: give 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["0", "65536", "99999", "-1", "http"])
def test_a_port_that_there_is_not_is_a_wrong_parameter(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", f"--port={port}"]) == 2
    assert f"{port} is no port: give 1 to 65535" in capsys.readouterr().err
