"""The web application of a server of ours: Prefect's own, and beside it what was published, to look at.

Only files below the output and quarantine folders, none that is hidden: the work folder holds the server's
database, and with it secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from prefect.server.api import server
from prefect.server.events.ordering import memory
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.settings import FILES_PATH, served_folders

# An event of a run waits for the one that it follows, and only this process remembers which those were: after a restart
# the first of each run would wait in vain, by default a quarter of an hour, and with it what rules make of it.
EVENT_PATIENCE = timedelta(seconds=10)

# What Prefect's pages need: inline styles, compiled templates, workers and pictures made on the spot.
BROWSER_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'"
)


class _PublishedFiles(StaticFiles):
    """Files that are not hidden."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file, or 404 for whatever lies below a name that begins with a dot."""
        hidden = any(part.startswith(".") for part in Path(path).parts)
        return Response(status_code=404) if hidden and path != "." else await super().get_response(path, scope)


class _NothingFromOutside:
    """Tells the browser to ask nobody but this server: no fonts, no statistics, no news."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the policy among the headers."""

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("Content-Security-Policy", BROWSER_POLICY)
            await send(message)

        await self._app(scope, receive, send_with_policy)


def create_app() -> ASGIApp:
    """Return Prefect's application with the served folders mounted in front of its UI."""
    assert hasattr(memory, "PRECEDING_EVENT_LOOKBACK"), "this version of Prefect names it otherwise"
    memory.PRECEDING_EVENT_LOOKBACK = EVENT_PATIENCE
    app = server.create_app()
    app.router.routes[:0] = mounts(served_folders())
    return _NothingFromOutside(app)


def mounts(folders: Mapping[str, Path]) -> list[BaseRoute]:
    """Return one route a folder; a folder may come into being later."""
    return [
        Mount(f"/{FILES_PATH}/{name}", app=_PublishedFiles(directory=folder, check_dir=False))
        for name, folder in folders.items()
    ]
