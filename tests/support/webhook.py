"""A web server that remembers what it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hook:
    """What came in, as (path, body)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[tuple[str, str]] = []


@contextmanager
def listening() -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            hook.calls.append((self.path, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook = Hook(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield hook
        server.shutdown()
        thread.join()
