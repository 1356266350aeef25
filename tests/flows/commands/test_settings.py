"""What tomeflow asks of libraries and of whoever types, seen from a process that starts as the command does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from data_contracts.errors import ConfigError
from flows.commands.cli import main
from flows.serving.automations import SILENCE_S
from flows.settings import SERVED_OUTPUT_NAME, read_settings, server_names

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


def test_a_run_of_the_server_writes_to_the_served_output_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings(str(tmp_path / "anywhere")).output == str(tmp_path / "anywhere")
    monkeypatch.setenv(SERVED_OUTPUT_NAME, str(tmp_path / "out"))
    (tmp_path / "link").symlink_to("out")
    for same in ("out", "out/", "./x/../out", "link"):
        assert read_settings(f"{tmp_path}/{same}")
    assert read_settings(f"file://{tmp_path}/out")
    for other in (
        f"{tmp_path}/out/inside",
        str(tmp_path),
        f"{tmp_path}/out/..",
        "out",
        "s3://bucket/out",
        "memory://out",
    ):
        with pytest.raises(ConfigError, match="write to"):
            read_settings(other)
    monkeypatch.setenv(SERVED_OUTPUT_NAME, "s3://bucket/out")
    assert read_settings("s3://bucket/out/")
    for other in ("s3://bucket/out/../other", "s3://other/out", "out"):
        with pytest.raises(ConfigError, match="write to"):
            read_settings(other)


def test_a_server_answers_under_the_names_that_lead_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    local = {"127.0.0.1", "localhost", "[::1]"}
    assert server_names() == local
    monkeypatch.setenv("TOMEFLOW_SERVE_NAMES", " Scans.Example , fd00::7,")
    assert server_names() == local | {"scans.example", "[fd00::7]"}
    monkeypatch.setenv("TOMEFLOW_LISTENING_HOST", "0.0.0.0")
    assert server_names() == local | {"scans.example", "[fd00::7]", "0.0.0.0", socket.gethostname().lower()}
