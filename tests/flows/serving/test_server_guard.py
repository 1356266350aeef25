"""Who is let through to a server, and what of the published files is shown: every attack that could be thought of."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from flows.serving.served_files import mounts
from flows.serving.server_guard import Guard, is_right

POLICY = "default-src 'self'; frame-ancestors 'none'"
NAMES = ("127.0.0.1", "localhost", "[::1]", "tome.example")
OWN = "http://127.0.0.1:4200"
PASSWORD = "library:öpen sésame:1"
EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def basic(auth: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"}


async def greet(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("let in")
    await websocket.close()


def asked_as_it_stands(app: Any, path: str, hosts: Sequence[bytes] = (b"127.0.0.1:4200",)) -> tuple[int, bytes]:
    """Return status and content of a request whose path nobody makes simpler on the way, as clients do."""
    said: list[Message] = []

    async def say(message: Message) -> None:
        said.append(message)

    async def nothing() -> Message:
        return {"type": "http.request"}

    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", host) for host in hosts],
    }
    anyio.run(app, scope, nothing, say)
    return said[0]["status"], b"".join(message.get("body", b"") for message in said)


def client(auth: str | None = None, *, any_address: bool = False, routes: Any = ()) -> TestClient:
    async def answer(_: object) -> PlainTextResponse:
        return PlainTextResponse("let in")

    inside = Starlette(
        routes=[*routes, WebSocketRoute("/socket", greet), Route("/{path:path}", answer, methods=EVERY_METHOD)]
    )
    return TestClient(Guard(inside, NAMES, POLICY, any_address=any_address, auth=auth), base_url=OWN)


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": OWN, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {"Host": "localhost:4200", "Origin": "http://localhost:4200"},
        {"Host": "LOCALHOST:8080", "Origin": "http://localhost:8080"},  # a tunnel from another port
        {"Host": "[::1]:4200", "Origin": "http://[::1]:4200"},
        {"Host": "tome.example", "Origin": "https://tome.example"},  # behind a proxy
        {"Host": "tome.example:443", "Origin": "https://tome.example"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
def test_the_own_pages_and_programs_are_let_in(method: str, headers: Mapping[str, str]) -> None:
    assert client().request(method, "/api/flows", headers=headers).status_code == 200


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},  # another port
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://localhost:4200"},  # another name of the same server is another origin
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "file://"},
        {"Origin": "chrome-extension://abcdef"},
        {"Origin": "http://127.0.0.1:4200.evil.example"},
        {"Origin": "http://127.0.0.1:4200@evil.example"},
        {"Origin": "http://evil.example#http://127.0.0.1:4200"},
        {"Origin": "ftp://127.0.0.1:4200"},
        {"Origin": "http://[broken"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},  # rebinding
        {"Host": "evil.example:4200"},
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1.evil.example:4200"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "127.0.0.1:4200, evil.example"},
        {"Host": "192.168.0.7:4200"},
        {"Host": "0.0.0.0:4200"},
        {"Host": "2130706433:4200"},
        {"Host": "localhost."},
        {"Host": ""},
        {"Host": "evil.example", "X-Forwarded-Host": "127.0.0.1:4200"},
    ],
)
def test_pages_of_others_and_other_names_are_refused_whatever_they_ask_for(
    method: str, headers: Mapping[str, str]
) -> None:
    answer = client().request(method, "/api/flows", headers=headers)
    assert (answer.status_code, "let in" in answer.text) == (403, False)
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_link_from_elsewhere_may_be_followed_and_a_form_from_elsewhere_may_not() -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client().get("/dashboard", headers=link).status_code == 200
    assert client().post("/api/flows", headers=link).status_code == 403


def test_two_host_headers_are_refused() -> None:
    assert asked_as_it_stands(client().app, "/", hosts=(b"127.0.0.1:4200", b"evil.example"))[0] == 403


def test_an_address_is_a_name_of_a_server_that_others_may_reach_and_an_unknown_name_is_not() -> None:
    for host in ("192.168.0.7:4200", "[fd00::7]:4200"):
        assert client(any_address=True).get("/", headers={"Host": host}).status_code == 200
    for host in ("first.example:4200", "2130706433", "192.168.0.7.evil.example"):
        assert client(any_address=True).get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("headers", [{}, {"Origin": OWN}])
def test_own_websockets_are_opened(headers: Mapping[str, str]) -> None:
    with client().websocket_connect("ws://127.0.0.1:4200/socket", headers=headers) as socket:
        assert socket.receive_text() == "let in"


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_websockets_of_others_are_not_opened(headers: Mapping[str, str]) -> None:
    connection = client().websocket_connect("ws://127.0.0.1:4200/socket", headers=headers)
    with pytest.raises(WebSocketDisconnect) as refused, connection:
        pass
    assert refused.value.code == 1008


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("library:"),
        basic("library:open sesame:1"),
        basic(PASSWORD + " "),
        basic(PASSWORD.upper()),
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Bearer " + basic(PASSWORD)["Authorization"].split()[1]},
        {"Authorization": PASSWORD.encode()},
        {"Cookie": f"password={PASSWORD}".encode()},
    ],
)
def test_nothing_is_answered_without_the_password(method: str, headers: Mapping[str, Any]) -> None:
    for path in ("/", "/api/health", "/tomeflow/files/book/document.txt", "/docs", "/nothing/of/that/name"):
        answer = client(PASSWORD).request(method, path, headers=headers)
        assert (answer.status_code, "let in" in answer.text) == (401, False)
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")


def test_with_the_password_all_is_answered_and_pages_of_others_are_refused_nevertheless() -> None:
    assert client(PASSWORD).get("/", headers=basic(PASSWORD)).text == "let in"
    assert client(PASSWORD).get("/", headers={**basic(PASSWORD), "Origin": "http://evil.example"}).status_code == 403
    assert is_right(basic(PASSWORD)["Authorization"].replace("Basic", "basic"), PASSWORD)


def test_a_websocket_is_opened_with_the_password_or_where_prefect_asks_for_it_first() -> None:
    place = "ws://127.0.0.1:4200/socket"
    with client(PASSWORD).websocket_connect(place, headers=basic(PASSWORD)) as socket:
        assert socket.receive_text() == "let in"
    with client(PASSWORD).websocket_connect(place, subprotocols=["prefect"]) as socket:
        assert socket.receive_text() == "let in"
    for headers, protocols in (({}, ["other"]), (basic("a:b"), ["prefect"]), ({}, [])):
        connection = client(PASSWORD).websocket_connect(place, headers=headers, subprotocols=protocols)
        with pytest.raises(WebSocketDisconnect), connection:
            pass


@pytest.fixture
def published_folder(tmp_path: Path) -> Iterator[TestClient]:
    """Served folders with everything around them that must not be seen, and in them what leads there."""
    output = tmp_path / "out"
    (output / "book").mkdir(parents=True)
    (output / ".tomeflow" / "quarantine" / "kept").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("SECRET")
    (output / ".hidden.txt").write_text("SECRET")
    (output / ".tomeflow" / "prefect.db").write_text("SECRET")
    (output / ".tomeflow" / "quarantine" / ".state").write_text("SECRET")
    (tmp_path / "out-of-reach.txt").write_text("SECRET")  # its path begins as the folder's does
    for name, target in {
        "outside.txt": tmp_path / "secret.txt",
        "upwards": tmp_path,
        "inside.txt": output / ".tomeflow" / "prefect.db",
        "work": output / ".tomeflow",
        "away.txt": Path("/etc/passwd"),
    }.items():
        (output / "book" / name).symlink_to(target)
    for name in ("document.txt", "document.pdf", "report.html", "pages.jsonl", "picture.svg", "data.bin"):
        (output / "book" / name).write_text("<script>shown</script>")
    (output / ".tomeflow" / "quarantine" / "kept" / "document.txt").write_text("quarantined")
    os.mkfifo(output / "book" / "pipe")
    folders = {"files": output, "quarantine": output / ".tomeflow" / "quarantine"}
    with client(routes=mounts(folders)) as shown:
        yield shown


@pytest.mark.parametrize("path", ["files/book/document.txt", "quarantine/kept/document.txt"])
def test_what_was_published_or_kept_back_is_shown(published_folder: TestClient, path: str) -> None:
    assert published_folder.get(f"/tomeflow/{path}").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "files/../../secret.txt",
        "files/book/../../../secret.txt",
        "files/book/../document.txt",
        "files/%2e%2e/%2e%2e/secret.txt",
        "files/%2e%2e%2f%2e%2e%2fsecret.txt",
        "files/..%2f..%2fsecret.txt",
        "files/%252e%252e/%252e%252e/secret.txt",
        "files/%252e%252e%252fsecret.txt",
        "files/..%5c..%5csecret.txt",
        "files/book%5cdocument.txt",
        "files/%c0%ae%c0%ae/%c0%ae%c0%ae/secret.txt",
        "files/book/document.txt%00.html",
        "files/%00",
        "files//etc/passwd",
        "files/%2fetc%2fpasswd",
        "files/book//../../../secret.txt",
        "files/./.hidden.txt",
        "files/.hidden.txt",
        "files/%2ehidden.txt",
        "files/.tomeflow/prefect.db",
        "files/book/outside.txt",
        "files/book/upwards/secret.txt",
        "files/book/upwards/out-of-reach.txt",
        "files/book/inside.txt",
        "files/book/work/prefect.db",
        "files/book/work/quarantine/.state",
        "files/book/away.txt",
        "files/book/pipe",
        "files/book/",
        "files/book",
        "files/",
        "files",
        "files/" + "a" * 5000,
        "files-of-reach.txt",
        "quarantine/../",
        "quarantine/..",
        "quarantine/../prefect.db",
        "quarantine/%2e%2e/prefect.db",
        "quarantine/.state",
        "quarantine/",
        "",
        "../",
        "nothing",
    ],
)
def test_every_way_out_of_the_folder_is_404(published_folder: TestClient, path: str) -> None:
    status, content = asked_as_it_stands(published_folder.app, f"/tomeflow/{path}")
    assert (status, b"SECRET" in content, b"let in" in content) == (404, False, False)


def test_a_folder_that_is_not_there_yet_has_no_files(tmp_path: Path) -> None:
    app = client(routes=mounts({"quarantine": tmp_path / "none"})).app
    for path in ("", "/", "/../", "/kept/document.txt"):
        assert asked_as_it_stands(app, f"/tomeflow/quarantine{path}")[0] == 404


def test_what_cannot_be_read_is_not_there(published_folder: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr("starlette.staticfiles.os.stat", forbidden)  # as for a file of mode 0; root may read those too
    assert published_folder.get("/tomeflow/files/book/document.txt").status_code == 404


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("document.txt", "text/plain; charset=utf-8"),
        ("document.pdf", "application/pdf"),
        ("report.html", "text/html; charset=utf-8"),
        ("pages.jsonl", "text/plain; charset=utf-8"),
        ("picture.svg", "application/octet-stream"),
        ("data.bin", "application/octet-stream"),
    ],
)
def test_a_file_is_what_it_is_and_acts_on_nothing(published_folder: TestClient, name: str, content_type: str) -> None:
    headers = published_folder.get(f"/tomeflow/files/book/{name}").headers
    assert headers["Content-Type"] == content_type
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = [part.strip() for part in headers["Content-Security-Policy"].split(";")]
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'none'" in policy or {"default-src 'none'", "sandbox"} <= set(policy)
