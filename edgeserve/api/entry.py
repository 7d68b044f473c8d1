"""An entry of the table of routes, which makes the router and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from edgeserve.api.later import at, later
from edgeserve.dataclass import dataclass
from edgeserve.jobs import Job
from edgeserve.named import find

if TYPE_CHECKING:
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
    """One method of one path. It names its room by import strings: the first request imports the room.

    - ``handler``: ``module:name`` of the endpoint, or of the function that parses a request where ``jobs`` are given
    - ``record``: the record in the request's body, as ``module:name`` or as a name in the handler's module
    - ``answer``: media type of a success
    - ``also``: further media types of a success, which the request chooses
    - ``media``: ``module:name`` of all media types of a success, the usual first, instead of ``answer`` and ``also``
    - ``jobs``: a model of these jobs answers, on the straight line (``line.answering``)
    - ``optional``: whether the body may be left out
    - ``files``: whether the body may be a form with the record as one part and files as the others
    - ``asked``: the record in the query, as ``record``
    - ``headers``: pairs of a field of the query and a header that may hold it instead
    - ``owner``: whether the route is for the owner of the box alone (``auth.for_owner``)
    - ``links``: requests that may follow
    """

    method: str
    path: str
    summary: str
    handler: str
    record: str = ""
    answer: str = "application/json"
    jobs: tuple[Job, ...] = ()
    optional: bool = False
    files: bool = False
    asked: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    owner: bool = False
    also: tuple[str, ...] = ()
    media: str = ""
    links: tuple[Link, ...] = ()

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint. Its first request imports its room."""
        return later(self._answering) if self.jobs else at(self.handler)

    @property
    def body(self) -> type[Record] | None:
        """The record in the request's body. Imports its room."""
        return self._record(self.record)

    @property
    def query(self) -> type[Record] | None:
        """The record in the query. Imports its room."""
        return self._record(self.asked)

    @property
    def media_types(self) -> tuple[str, ...]:
        """Media types of a success, the usual first. Imports the room that ``media`` names."""
        return tuple(find(self.media)) if self.media else (self.answer, *self.also)

    def _answering(self) -> Endpoint:
        from edgeserve.api.line import answering

        # The parser comes later still: the memory of the model is read from disk while its room is imported.
        return answering(at(self.handler), *self.jobs)

    def _record(self, name: str) -> type[Record] | None:
        if not name:
            return None
        found: type[Record] = find(name if ":" in name else f"{self.handler.partition(':')[0]}:{name}")
        return found
