"""An output folder that cannot be made is told by name, with what to do, before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.command import run

from data_contracts.errors import StorageUnavailable
from flows.execution.single_flight import one_run_at_a_time
from flows.serving.prefect_server import prefect_api


def a_file(folder: Path) -> Path:
    (folder / "out").write_text("a file")
    return folder / "out"


def a_folder_of_the_system(_: Path) -> Path:
    return Path("/proc/tomeflow-out")


@pytest.mark.parametrize("output_in", [a_file, a_folder_of_the_system])
def test_neither_a_server_nor_a_lock_is_made_where_no_folder_can_be(
    tmp_path: Path, output_in: Callable[[Path], Path]
) -> None:
    work = output_in(tmp_path) / ".tomeflow"
    for opened in (prefect_api(work, None), one_run_at_a_time(work / "locks", "book")):
        with pytest.raises(StorageUnavailable, match="choose another folder") as caught, opened:
            pass
        assert str(work.parent.resolve()) in str(caught.value)


def test_the_command_says_it_in_one_line(tmp_path: Path) -> None:
    output = a_file(tmp_path)
    ended = run("run", "a.png", "-o", output)
    assert ended.returncode == 50
    assert str(output) in ended.stderr
    assert ended.stderr.count("\n") == 1
