"""The routes of the web page. The page and its files are public: they hold no secret, and their requests need the key.

The files are read with the first request for one of them.
"""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from edgeserve.api.origin import values

PREFIX = "/web/"
"""Beginning of the paths of the page's files."""
PATH = f"{PREFIX}{{version}}/{{path:path}}"
HTML, JSON = "text/html", "application/json"


def wants_page(scope: Scope) -> bool:
    """Whether the client names HTML among the media types that it accepts, and JSON not before it."""
    listed = [one.partition(";")[0].strip() for value in values(scope, b"accept") for one in value.lower().split(",")]
    return HTML in listed and JSON not in listed[: listed.index(HTML)]


def is_public(scope: Scope) -> bool:
    """Whether the request reads the page or one of its files. ``scope["path"]`` is the path of a route."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    path = scope["path"]
    return path.startswith(PREFIX) or (path == "/" and wants_page(scope))


async def page(request: Request) -> Response:
    from edgeserve.api.web import files

    return (await asyncio.to_thread(files.read)).page(request)


async def file(request: Request) -> Response:
    """Raises HTTPException with 404 for a path that no file of the page has."""
    from edgeserve.api.web import files

    found = (await asyncio.to_thread(files.read)).file(request)
    if found is None:
        raise HTTPException(404)
    return found
