"""Requests for the page and its files, which need no key: they hold no secret, and the page's own requests need it."""

from __future__ import annotations

from starlette.types import Scope

from edgeserve.api.origin import values

PREFIX = "/web/"
"""Beginning of the paths of the page's files."""
PATH = f"{PREFIX}{{version}}/{{path:path}}"
READS = ("GET", "HEAD")
HTML, JSON = "text/html", "application/json"


def wants_page(scope: Scope) -> bool:
    """Whether the client names HTML among the media types that it accepts, and JSON not before it."""
    listed = [one.partition(";")[0].strip() for value in values(scope, b"accept") for one in value.lower().split(",")]
    return HTML in listed and JSON not in listed[: listed.index(HTML)]


def is_public(scope: Scope) -> bool:
    """Whether the request reads the page or one of its files. ``scope["path"]`` is the path of a route."""
    path = scope["path"]
    if scope["type"] != "http" or not (path == "/" or path.startswith(PREFIX)) or scope["method"] not in READS:
        return False
    return path != "/" or wants_page(scope)
