"""What a server of ours lets nobody change: which code its workers run, and how.

Whoever may use the server may have documents read. In Prefect the same person may also store a command, a step before
the run or another entry point, and have a worker execute it: here that is refused, whoever asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.serving.deployments import DEPLOYMENTS, WORK_POOL, job_template

ENTRYPOINTS = frozenset(deployment.entrypoint for deployment in DEPLOYMENTS)
# All that `prefect deploy` may add by itself; it runs nothing.
HARMLESS_STEP = "prefect.deployments.steps.set_working_directory"

_DEPLOYMENT = re.compile(r"/api/deployments(/[0-9a-fA-F-]+)?/?")
_WORK_POOL = re.compile(r"/api/work_pools(?:/([^/]+))?/?")


class OnlyOurFlows:
    """Refuses what would have workers run anything but tomeflow's own flows."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before ``app``, Prefect's application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or say why not."""
        fault_of = _rule(scope) if scope["type"] == "http" else None
        if fault_of is None:
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if fault := fault_of(_read(body)):
            said = f"Refused: {fault}. Workers of this server run tomeflow's own flows only."
            await JSONResponse({"detail": said}, HTTPStatus.UNPROCESSABLE_ENTITY)(scope, receive, send)
        else:
            await self._app(scope, _again(body, receive), send)


def _rule(scope: Scope) -> Callable[[Any], str] | None:
    """Return what finds the fault of such a request's content; None: no rule is about it."""
    method, path = scope["method"], scope["path"]
    if method in ("POST", "PATCH") and _DEPLOYMENT.fullmatch(path):
        return fault_of_deployment
    pool = _WORK_POOL.fullmatch(path)
    if pool and method in ("POST", "PATCH"):
        return lambda content: fault_of_work_pool(content, pool[1])
    if pool and method == "DELETE" and pool[1] == WORK_POOL:
        return lambda _: "the work pool is needed; a worker would make it anew with a free command"
    return None


def fault_of_deployment(content: Any) -> str:
    """Return what is wrong with a deployment, or with a change of one; empty: nothing."""
    if not isinstance(content, Mapping):
        return "not a JSON object"
    entrypoint, steps = content.get("entrypoint"), content.get("pull_steps")
    if entrypoint is not None and entrypoint not in ENTRYPOINTS:
        return "the entrypoint is none of tomeflow's flows"
    if steps and not (isinstance(steps, list) and all(_is_harmless(step) for step in steps)):
        return "pull_steps would run before the flow"
    if content.get("job_variables"):
        return "job_variables say how runs are started, which the work pool alone does"
    return "storage_document_id would fetch other code" if content.get("storage_document_id") else ""


def fault_of_work_pool(content: Any, name: str | None) -> str:
    """Return what is wrong with a new work pool, or with a change of the one called ``name``; empty: nothing."""
    if not isinstance(content, Mapping):
        return "not a JSON object"
    if (name or content.get("name")) != WORK_POOL:
        return ""  # none of ours works for it
    if "base_job_template" not in content:
        return "" if name else "a job template is missing"
    template = content["base_job_template"]
    folder = template.get("job_configuration", {}).get("working_dir") if isinstance(template, Mapping) else None
    is_ours = isinstance(folder, str) and "{{" not in folder and template == job_template(Path(folder))
    return "" if is_ours else "the job template is not the one that tomeflow serve gives its work pool"


def _is_harmless(step: Any) -> bool:
    return isinstance(step, Mapping) and set(step) == {HARMLESS_STEP} and "requires" not in (step[HARMLESS_STEP] or {})


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what hands over ``body`` first, then whatever else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def hand_over() -> Message:
        return waiting.pop() if waiting else await receive()

    return hand_over
