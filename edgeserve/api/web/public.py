"""Requests for the page and its files, which need no key: they hold no secret, and the page's own requests need it."""

from __future__ import annotations

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
