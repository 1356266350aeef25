"""The command line when nobody takes its output, and when it is given what is no place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.command import command, run

from data_contracts.errors import ConfigError
from tasks.storage import local_path

BUFFERED = {**os.environ, "PYTHONUNBUFFERED": ""}


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        ended = subprocess.run(
            command("status", "--json", "-o", tmp_path),
            stdout=output,
            stderr=subprocess.PIPE,
            env=BUFFERED,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_an_output_without_room_is_told_in_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as output:
        ended = subprocess.run(
            command("status", "--json", "-o", tmp_path),
            stdout=output,
            stderr=subprocess.PIPE,
            env=BUFFERED,
            check=False,
        )
    assert ended.returncode == 50
    assert ended.stderr.startswith(b"tomeflow: [Errno 28] No space left on device. Make room")
    assert ended.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("run", ""), "is empty"),
        (("ingest", ""), "is empty"),
        (("run", "a.png", "-o", os.fsdecode(b"\xff")), "not UTF-8"),
    ],
)
def test_what_is_no_place_is_wrong_usage(arguments: tuple[str, ...], why: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert why in ended.stderr


@pytest.mark.parametrize("uri", ["s3x://a/b", "nothing://"])
def test_a_protocol_that_nobody_knows_is_a_wrong_parameter(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"Protocol not known.*s3://bucket/name"):
        local_path(uri)
