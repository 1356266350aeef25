"""The web application of a server of ours: Prefect's own, beside it what was published, and before both the guard."""

from __future__ import annotations

from datetime import timedelta

from prefect.server.api import server
from prefect.server.events.ordering import memory
from prefect.settings import get_current_settings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from flows.serving.served_files import mounts
from flows.serving.server_guard import Guard
from flows.serving.server_rules import OnlyOurFlows
from flows.settings import listens_to_this_machine_alone, served_folders, server_names

# An event of a run waits for the one that it follows, and only this process remembers which those were: after a restart
# the first of each run would wait in vain, by default a quarter of an hour, and with it what rules make of it.
EVENT_PATIENCE = timedelta(seconds=10)

# What Prefect's pages need: inline styles, compiled templates, workers and pictures made on the spot. Nobody outside is
# asked: no fonts, no statistics, no news; and no other page holds ours in a frame.
BROWSER_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)


def create_app() -> ASGIApp:
    """Return Prefect's application with the served folders mounted in front of its UI, behind the guard."""
    assert hasattr(memory, "PRECEDING_EVENT_LOOKBACK"), "this version of Prefect names it otherwise"
    memory.PRECEDING_EVENT_LOOKBACK = EVENT_PATIENCE
    app = server.create_app()
    password = get_current_settings().server.api.auth_string
    app.router.routes[:0] = [_ui_settings(app), *mounts(served_folders())]
    return Guard(
        OnlyOurFlows(app),
        server_names(),
        BROWSER_POLICY,
        any_address=not listens_to_this_machine_alone(),
        auth=password.get_secret_value() if password else None,
    )


def _ui_settings(app: Starlette) -> Route:
    """Return Prefect's route to the settings of its pages; that these ask for a password is not among them.

    The browser has asked for it already, and sends it with every request of the pages.
    """
    (ui,) = (route for route in app.routes if isinstance(route, Mount) and route.name == "ui")
    (shown,) = (route.endpoint for route in ui.routes if isinstance(route, Route) and route.path == "/ui-settings")

    def without_a_password(_: Request) -> Response:
        return JSONResponse({**shown().model_dump(mode="json"), "auth": None})

    return Route("/ui-settings", without_a_password)
