"""An entry of the table of routes, which makes the router and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from edgeserve.api.schema import Record

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Link:
    """A request that may follow: a value of the answer goes into the parameter of another route.

    - ``value``: where the value stands in the answer, as a JSON pointer (RFC 6901)
    - ``where``: "path" or "query"
    """

    name: str
    method: str
    path: str
    value: str
    where: str
    parameter: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One method of one path.

    - ``body``: the record in the request's body
    - ``answer``: media type of a success
    - ``also``: further media types of a success, which the request chooses
    - ``optional``: whether the body may be left out
    - ``files``: whether the body may be a form with the record as one part and files as the others
    - ``query``: the record in the query
    - ``headers``: pairs of a field of the query and a header that may hold it instead
    - ``owner``: whether the route is for the owner of the box alone (``auth.for_owner``)
    - ``links``: requests that may follow
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
    owner: bool = False
    also: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
