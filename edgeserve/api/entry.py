"""An entry of the table of routes, which makes the router and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from edgeserve.api.schema import Record

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One method of one path.

    ``body`` is the record in the request's body; the body may be left out where it is ``optional``, and may be a form
    with files where the route takes ``files``. ``answer`` is the media type of a success. ``query`` is the record in
    the query; ``headers`` pairs some of its fields with headers that may hold them instead.
    """

    method: str
    path: str
    summary: str
    endpoint: Endpoint
    body: type[Record] | None = None
    answer: str = "application/json"
    optional: bool = False
    files: bool = False
    query: type[Record] | None = None
    headers: tuple[tuple[str, str], ...] = ()
