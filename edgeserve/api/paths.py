"""Paths as clients write them: with slashes too many, without the prefix ``/v1``, or with two of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/v1"
SLASHES = re.compile("/{2,}")


def without_prefix(paths: Collection[str]) -> Mapping[str, str]:
    """The route of each path without its prefix, where no route has that path. Routes with parameters have none."""
    routes = {path.removeprefix(PREFIX): path for path in paths if path.startswith(f"{PREFIX}/") and "{" not in path}
    return {path: route for path, route in routes.items() if path not in paths}


class Paths:
    """Gives every request the path of its route.

    1. Slashes in a row count as one, and none stands at the end.
    2. ``/v1/v1/…`` is ``/v1/…``: the client's base address and its paths both hold the prefix.
    3. ``short``: paths that stand for others.
    """

    def __init__(self, app: ASGIApp, short: Mapping[str, str]) -> None:
        self._app = app
        self._short = short

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (path := self.meant(scope["path"])) != scope["path"]:
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)

    def meant(self, path: str) -> str:
        """The path of the route that a path means."""
        # 1.
        path = SLASHES.sub("/", path).rstrip("/") or "/"
        # 2.
        if path.startswith(f"{PREFIX}{PREFIX}/"):
            path = path.removeprefix(PREFIX)
        # 3.
        return self._short.get(path, path)
