"""A server that cannot start says why, as soon as it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.failures.full_disk import no_file_larger_than

from data_contracts.errors import StorageUnavailable
from flows.prefect_server import ServerUnavailable, log_file, prefect_api

pytestmark = [pytest.mark.flow]


def test_a_disk_that_is_full_amid_the_start_is_told_when_the_server_has_ended(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerUnavailable) as caught,
        no_file_larger_than(100_000),
        prefect_api(tmp_path, None),
    ):
        pass
    for part in (
        "ended with code",
        "sqlite3.OperationalError",
        str(log_file(tmp_path / "prefect")),
        "GB free there",
        "Make room",
    ):
        assert part in str(caught.value)
    assert "did not answer" not in str(caught.value)


def test_a_disk_that_is_full_before_is_told_before_a_server_is_started(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageUnavailable, match=r"could not write .*server\.log.*Make room"),
        no_file_larger_than(0),
        prefect_api(tmp_path, None),
    ):
        pass
