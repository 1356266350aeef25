"""The command line when nobody takes its output, and when it is given what is no place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import IO

import pytest
from support.command import command, run

from data_contracts.errors import ConfigError
from flows.commands.parser import command_parser
from tasks.storage import local_path

BUFFERED = {**os.environ, "PYTHONUNBUFFERED": ""}


def ended(output: IO[bytes], *arguments: str | Path) -> tuple[int, str]:
    """Return the exit code of the command with this standard output, and what it said on standard error."""
    done = subprocess.run(
        command(*arguments), stdout=output, stderr=subprocess.PIPE, env=BUFFERED, text=True, check=False
    )
    return done.returncode, done.stderr


WITH_OUTPUT = [("status", "--json", "-o", "none"), ("--help",), ("run", "--help"), ("bench", "readers", "--help")]


@pytest.mark.parametrize("arguments", WITH_OUTPUT)
def test_a_reader_that_has_gone_is_no_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        assert ended(output, *arguments) == (0, "")


@pytest.mark.parametrize("arguments", WITH_OUTPUT)
def test_an_output_without_room_is_told_in_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as output:
        code, told = ended(output, *arguments)
    assert code == 50
    assert told.startswith("tomeflow: [Errno 28] No space left on device. Make room")
    assert told.count("\n") == 1


def test_an_input_may_begin_with_a_dash_behind_two() -> None:
    options, rest = command_parser().parse_known_args(["run", "--", "-dash.png", "--other.png"])
    assert (options.inputs, rest) == (["-dash.png", "--other.png"], [])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("run", ""), "is empty"),
        (("ingest", ""), "is empty"),
        (("run", "a.png", "-o", os.fsdecode(b"\xff")), "not UTF-8"),
    ],
)
def test_what_is_no_place_is_wrong_usage(arguments: tuple[str, ...], why: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert why in done.stderr


@pytest.mark.parametrize("uri", ["s3x://a/b", "nothing://"])
def test_a_protocol_that_nobody_knows_is_a_wrong_parameter(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"Protocol not known.*s3://bucket/name"):
        local_path(uri)
