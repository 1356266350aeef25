"""What was published, as the server of ``tomeflow serve`` shows it: files below the served folders, none hidden.

What was published comes from scans and from whoever named them: no file of it may act on the server in whose name it
is shown, so that documents are shown without scripts, forms and an origin of their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePath

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from flows.settings import FILES_PATH

# A report has styles of its own and its pictures in it, and nothing else.
_SHOWN = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
DOCUMENT_POLICY = f"{_SHOWN}; frame-ancestors 'none'; sandbox"
# Viewers of PDF refuse to work in a sandbox; a script in a PDF has no part in the origin.
PDF_POLICY = (
    "default-src 'self'; script-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"
)

_TEXT = "text/plain; charset=utf-8"
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".jsonl": _TEXT,  # to be read in the browser
    ".md": _TEXT,
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".txt": _TEXT,
    ".xml": "application/xml",
}
_ANYTHING = "application/octet-stream"


class PublishedFiles(StaticFiles):
    """Files of one folder; whatever is not a file in it, or hidden, or cannot be read, is 404."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file, or 404."""
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code == 401:  # it may not be read: nobody's password would change that
                raise HTTPException(404) from error
            raise
        if isinstance(response, FileResponse):
            suffix = PurePath(response.path).suffix.lower()
            response.headers["Content-Type"] = _CONTENT_TYPES.get(suffix, _ANYTHING)
            response.headers["Content-Security-Policy"] = PDF_POLICY if suffix == ".pdf" else DOCUMENT_POLICY
        return response

    async def check_config(self) -> None:
        """Ask for nothing: a folder that is not there yet has no files, which is no fault of the server."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Return the file behind ``path`` and what is known of it; hidden ones, also behind a link, are not there."""
        found, facts = super().lookup_path(path)
        if facts is None or self.directory is None:
            return "", None
        inside = Path(found).relative_to(Path(self.directory).resolve())
        is_hidden = any(part.startswith(".") for part in (*PurePath(path).parts, *inside.parts))
        return ("", None) if is_hidden and path != "." else (found, facts)


async def _nothing_there(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("Not Found", 404)(scope, receive, send)


def mounts(folders: Mapping[str, Path]) -> list[BaseRoute]:
    """Return the routes below ``FILES_PATH``: one a folder, which may come into being later; all else is 404."""
    shown = [
        Mount(f"/{FILES_PATH}/{name}", app=PublishedFiles(directory=folder, check_dir=False))
        for name, folder in folders.items()
    ]
    return [*shown, Mount(f"/{FILES_PATH}", app=_nothing_there)]
