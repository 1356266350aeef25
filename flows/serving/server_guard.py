"""Who may talk to a server of ours: an ASGI layer before everything that it serves, websockets included.

A page in the operator's browser is not the operator: what comes from another origin, or under a host name that is not
the server's own (a name that was made to lead here: DNS rebinding), is refused before anything reads it. With a
password, nothing is answered without it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CHALLENGE = {"WWW-Authenticate": 'Basic realm="tomeflow", charset="UTF-8"'}

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#@]+)")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_REFUSED_BY_POLICY = 1008
"""How a websocket is told that it may not be opened (RFC 6455, 7.4.1)."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Lets through what the server's own pages, and programs that know the password, ask for."""

    def __init__(
        self, app: ASGIApp, names: Collection[str], policy: str, *, any_address: bool = False, auth: str | None = None
    ) -> None:
        """Stand before ``app``.

        Args:
            app: what is served.
            names: host names of the server, in lower case, IPv6 addresses in brackets.
            policy: Content-Security-Policy of answers that have none of their own.
            any_address: an IP address is a name of the server too; it cannot be rebound.
            auth: ``user:password``, if it takes one to be answered.
        """
        self._app = app
        self._names = frozenset(names)
        self._headers = {**_HEADERS, "Content-Security-Policy": policy}
        self._any_address = any_address
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, self._with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _REFUSED_BY_POLICY, "reason": ""})
        else:
            await refusal(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._is_own_host(headers.getlist("host")):
            return _refused("This server does not answer under that name. TOMEFLOW_SERVE_NAMES lists further ones.")
        if not is_own_origin(headers) or not _may_be_fetched(scope, headers):
            return _refused("Pages of other origins may not use this server.")
        if self._auth is not None and not self._is_authenticated(scope, headers, self._auth):
            return PlainTextResponse("This server asks for a password.", 401, CHALLENGE)
        return PlainTextResponse("Not Found", 404) if _leaves_its_place(scope["path"]) else None

    def _is_own_host(self, hosts: list[str]) -> bool:
        host = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if host is None:
            return False
        return host["name"] in self._names or (self._any_address and _is_address(host["name"].strip("[]")))

    @staticmethod
    def _is_authenticated(scope: Scope, headers: Headers, auth: str) -> bool:
        given = headers.getlist("authorization")
        if not given and scope["type"] == "websocket":
            # Most of Prefect's clients send the password as their first message instead, and its server lets no such
            # socket go on without it; what does not even offer to do so is refused here.
            return "prefect" in {part.strip() for part in headers.get("sec-websocket-protocol", "").split(",")}
        return len(given) == 1 and is_right(given[0], auth)

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        return send_with_headers


def is_own_origin(headers: Mapping[str, str]) -> bool:
    """Return whether the request says nothing of an origin, or that it is the server's own: the one in ``host``."""
    origin = headers.get("origin")
    if origin is None:
        return True
    said = _ORIGIN.fullmatch(origin.lower())
    if said is None:
        return False
    default_port = _DEFAULT_PORTS[said["scheme"]]
    return _with_port(said["host"], default_port) == _with_port(headers["host"].lower(), default_port) != ""


def is_right(authorization: str, auth: str) -> bool:
    """Return whether a header ``Authorization: Basic ...`` says ``auth``; takes as long whichever part is wrong."""
    scheme, _, credentials = authorization.partition(" ")
    try:
        said = base64.b64decode(credentials.strip(), validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(said, auth.encode()) and scheme.lower() == "basic"


def _may_be_fetched(scope: Scope, headers: Headers) -> bool:
    """Whether the browser, if it is one, says that our own page asks, or that a person has followed a link to here."""
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return True
    is_look = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    return is_look and (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")


def _leaves_its_place(path: str) -> bool:
    """Whether a path climbs, or has in it what no address of ours has; browsers send neither."""
    return ".." in path.split("/") or "\\" in path or "\0" in path


def _with_port(netloc: str, default_port: str) -> str:
    host = _HOST.fullmatch(netloc)
    return f"{host['name']}:{host['port'] or default_port}" if host else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refused(why: str) -> Response:
    return PlainTextResponse(why, 403)
