"""``tomeflow serve`` with a password: nothing is answered without it, and with it everything works."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect, sync_playwright
from support.browser import CHROMIUM_FLAGS
from support.command import command
from support.served import Served, until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from flows.sample.book import write_sample

pytestmark = [pytest.mark.e2e, pytest.mark.flow, pytest.mark.slow]

USER, PASSWORD = "librarian", "s3cret: cheese & wine"
AUTH = f"{USER}:{PASSWORD}"
PAGE_TIMEOUT_MS = 120_000
SOCKETS = (
    "events/in",
    "events/out",
    "logs/out",
    "task_runs/subscriptions/scheduled",
    "work_pools/tomeflow/workers/connect",
)
OUTSIDE_THE_API = (
    "/",
    "/dashboard",
    "/v2/dashboard",
    "/ui-settings",
    "/docs",
    "/redoc",
    "/openapi.json",
    "/ico/favicon.ico",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"), PREFECT_SERVER_API_AUTH_STRING=AUTH)
    write_sample(served.folder / "sample.pdf", 1, seed=12)
    served.start("--host", "0.0.0.0")
    yield served
    served.kill()


@pytest.fixture(scope="module")
def published(served: Served) -> Path:
    """The folder of a document that the worker has digitized."""
    run_id = served.start_run(source="sample.pdf")
    served.wait_for(run_id, "COMPLETED")
    (manifest,) = served.output.glob("*/manifest.json")
    return manifest.parent


def status(served: Served, path: str, method: str = "GET", **headers: str) -> int:
    request = urllib.request.Request(f"{served.url}{path}", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_no_route_of_all_is_answered_without_the_password(served: Served, published: Path) -> None:
    request = urllib.request.Request(f"{served.url}/openapi.json", headers=served.authorization())
    with urllib.request.urlopen(request, timeout=60) as answer:
        paths = json.load(answer)["paths"]
    routes = [(f"/api{path}", method.upper()) for path, methods in paths.items() for method in methods]
    assert len(routes) > 100
    files = [f"/tomeflow/files/{published.name}/{path.name}" for path in published.iterdir()]
    kept = ["/tomeflow/quarantine/", "/tomeflow/", "/nothing/of/that/name", "/api/docs", "/api/ready"]
    routes += [(path, "GET") for path in (*OUTSIDE_THE_API, *files, *kept)]
    answered = [(path, method, code) for path, method in routes if (code := status(served, path, method)) != 401]
    assert answered == []
    wrong = f"Basic {'x' * 8}"
    assert {status(served, path, "GET", Authorization=wrong) for path in (*OUTSIDE_THE_API, *files)} == {401}


@pytest.mark.parametrize("socket", SOCKETS)
def test_no_websocket_says_anything_without_the_password(served: Served, socket: str) -> None:
    place = f"ws://127.0.0.1:{served.port}/api/{socket}"
    with pytest.raises(InvalidStatus, match="403"), connect(place):
        pass
    for said in ({"type": "auth", "token": "librarian:wrong"}, {"type": "auth", "token": None}, {"type": "subscribe"}):
        with connect(place, subprotocols=[Subprotocol("prefect")]) as connection:
            connection.send(json.dumps(said))
            with pytest.raises(ConnectionClosed):
                connection.recv(timeout=60)


@pytest.mark.parametrize("socket", SOCKETS)
def test_prefects_own_way_to_say_the_password_opens_every_websocket(served: Served, socket: str) -> None:
    place = f"ws://127.0.0.1:{served.port}/api/{socket}"
    with connect(place, subprotocols=[Subprotocol("prefect")]) as connection:
        connection.send(json.dumps({"type": "auth", "token": AUTH}))
        assert json.loads(connection.recv(timeout=60))["type"] == "auth_success"


@pytest.fixture
def browser(need_tool: Callable[[str], str]) -> Iterator[Callable[..., BrowserContext]]:
    chromium = need_tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_FLAGS))
        yield browser.new_context
        browser.close()


def test_a_person_who_has_said_the_password_once_uses_the_pages(
    served: Served, published: Path, browser: Callable[..., BrowserContext]
) -> None:
    page = browser(http_credentials={"username": USER, "password": PASSWORD}).new_page()
    page.set_default_timeout(PAGE_TIMEOUT_MS)
    expect.set_options(timeout=PAGE_TIMEOUT_MS)
    refused: list[str] = []
    page.on("response", lambda response: refused.append(response.url) if response.status in (401, 403) else None)
    for start in ("/deployments", "/v2/deployments"):
        page.goto(f"{served.url}{start}")
        expect(page.get_by_role("link", name="digitize", exact=True).first).to_be_visible()
    summary = served.ask("/artifacts/latest/filter", {"artifacts": {"key": {"like_": "%-summary"}}})[0]
    page.goto(f"{served.url}/artifacts/artifact/{summary['latest_id']}")
    expect(page.get_by_role("link", name="document.txt").first).to_be_visible()
    page.goto(f"{served.url}/tomeflow/files/{published.name}/document.txt")
    assert page.inner_text("body").split() == (published / "document.txt").read_text().split()
    assert refused == []


def test_a_person_who_does_not_know_it_sees_nothing(served: Served, browser: Callable[..., BrowserContext]) -> None:
    answer = browser(http_credentials={"username": USER, "password": "guess"}).new_page().goto(served.url)
    assert answer is not None
    assert (answer.status, answer.text()) == (401, "This server asks for a password.")


def test_the_password_stands_in_no_log_no_answer_and_no_list_of_processes(served: Served, published: Path) -> None:
    written = [served.log, *served.home.glob("*.log*"), served.home / "serve.lock"]
    assert not [path for path in written if PASSWORD in path.read_text(errors="replace")]
    answers = [served.ask(f"/{what}/filter", {}) for what in ("logs", "block_documents", "flow_runs", "work_pools")]
    assert PASSWORD not in json.dumps([*answers, served.ask("/admin/settings")], ensure_ascii=False)
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in served.processes()]
    assert len(commands) >= 2
    assert not [line for line in commands if PASSWORD.encode() in line]


def test_a_run_from_the_shell_needs_the_password_too(served: Served, published: Path, tmp_path: Path) -> None:
    before = len(served.ask("/flow_runs/filter", {}))
    again = command("run", served.folder / "sample.pdf", "-o", served.output)
    environment = {name: value for name, value in served.environment.items() if "AUTH_STRING" not in name}
    untold = subprocess.run(again, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (untold.returncode, "set PREFECT_API_AUTH_STRING" in untold.stderr) == (2, True)
    told = environment | {"PREFECT_API_AUTH_STRING": AUTH}
    done = subprocess.run(again, cwd=tmp_path, env=told, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(served.ask("/flow_runs/filter", {})) > before


def test_the_server_comes_back_after_it_was_killed(served: Served) -> None:
    (before,) = served.processes("uvicorn")
    os.kill(before, 9)
    until(lambda: [pid for pid in served.processes("uvicorn") if pid != before], 300, "the server")
    until(lambda: _answers(served), 300, "its answer")


def _answers(served: Served) -> bool:
    try:
        return status(served, "/api/health", **served.authorization()) == 200
    except OSError:
        return False


@pytest.mark.parametrize("auth", ["password-alone", ":password", "user:", ":", "user:Käsebrot", "user:two\nlines"])
def test_what_is_no_user_and_password_is_a_wrong_parameter(tmp_path: Path, auth: str) -> None:
    environment = {**os.environ, "PREFECT_SERVER_API_AUTH_STRING": auth}
    done = subprocess.run(command("serve", "-o", tmp_path / "out"), env=environment, capture_output=True, text=True)
    assert (done.returncode, "must be user:password" in done.stderr) == (2, True)
