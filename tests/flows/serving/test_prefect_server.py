"""A server that cannot start says why, as soon as it has ended."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from support.failures.full_disk import no_file_larger_than

from data_contracts.errors import OutOfMemory, ServerUnavailable, StorageUnavailable
from flows.serving.prefect_database import DATABASE, ready_database
from flows.serving.prefect_server import log_file, prefect_api, wait_until_healthy

pytestmark = [pytest.mark.flow]


def test_a_disk_that_is_full_amid_the_start_is_told_before_a_server_is_started(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable) as caught, no_file_larger_than(100_000), prefect_api(tmp_path, None):
        pass
    for part in ("could not", "GB free there", "Make room"):
        assert part in str(caught.value)
    assert not list(tmp_path.rglob("prefect.db")), "none that is not whole"


def test_a_server_that_ends_while_it_starts_is_told_by_its_last_words(tmp_path: Path) -> None:
    with ready_database(tmp_path / "prefect"):
        (tmp_path / "prefect" / DATABASE).write_bytes(b"no database" * 1000)
    with pytest.raises(ServerUnavailable) as caught, prefect_api(tmp_path, None):
        pass
    for part in ("ended with code", "DatabaseError", str(log_file(tmp_path / "prefect")), "GB free there"):
        assert part in str(caught.value)
    assert "did not answer" not in str(caught.value)


@pytest.mark.parametrize(
    "said", ["MemoryError", "memory allocation of 176 bytes failed", "RuntimeError: can't start new thread"]
)
def test_a_server_that_had_no_memory_is_told_so_and_nobody_else_is_blamed(tmp_path: Path, said: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"--- a server starts: now\nTraceback\n{said}\nskipping backtrace printing\n")
    server = subprocess.Popen(["false"])
    server.wait()
    with pytest.raises(OutOfMemory, match="not enough memory"):
        wait_until_healthy(server, "http://127.0.0.1:1/api", log)


def test_a_disk_that_is_full_before_is_told_before_a_server_is_started(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageUnavailable, match=r"could not (write|be written).*Make room"),
        no_file_larger_than(0),
        prefect_api(tmp_path, None),
    ):
        pass


def test_the_server_of_a_run_answers_no_page_of_others_and_needs_no_password_of_a_lasting_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "user:password")  # for `tomeflow serve`, which is not there
    with prefect_api(tmp_path, None) as url:
        assert _status(f"{url}/health") == 200
        assert _status(f"{url}/flows/filter", b"{}", Origin=url.removesuffix("/api")) == 200
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Host": "evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            assert _status(f"{url}/flows/filter", b"{}", **headers) == 403


def _status(url: str, body: bytes | None = None, **headers: str) -> int:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
