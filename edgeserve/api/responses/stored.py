"""Stored responses: read, listed, deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api.auth import client_of
from edgeserve.api.fields import Fields, clipped
from edgeserve.api.limits import limits_of
from edgeserve.api.line import Whole
from edgeserve.api.responses.history import SHOWN
from edgeserve.api.responses.owner import owner_of
from edgeserve.api.responses.request import responses_of
from edgeserve.api.responses.store import StoredResponse
from edgeserve.api.schema import Record
from edgeserve.api.values import Enum, Flag, Integer, Text, Texts
from edgeserve.errors import InvalidRequest, NotFound
from edgeserve.residency.mailbox import Kept
from edgeserve.residency.pool import Pool

MOST_LISTED = 100
MOST_INCLUDED, INCLUDED_CHARS, AFTER_CHARS = 8, 64, 256
"""Bounds of texts in a query, all of which together fit into a request's head."""


class ResponseQuery(Record):
    """The query of GET /v1/responses/{response}."""

    NULLS = False
    include = Texts("accepted; it changes nothing here", MOST_INCLUDED, chars=INCLUDED_CHARS)
    stream = Flag("must be false: only a response that is being made is streamed")
    include_obfuscation = Flag("accepted; it changes nothing here")
    starting_after = Integer("accepted; it changes nothing here", 0, 2**53)


class ItemsQuery(Record):
    """The query of GET /v1/responses/{response}/input_items."""

    NULLS = False
    after = Text("the id of an item: the list begins behind it", limit=AFTER_CHARS)
    limit = Integer("items at most", 1, MOST_LISTED, default=20)
    order = Enum("asc: the oldest item first", ("asc", "desc"), default="desc")
    include = Texts("accepted; it changes nothing here", MOST_INCLUDED, chars=INCLUDED_CHARS)


async def retrieve(request: Request) -> Response:
    asked = ResponseQuery(_query(request), limits_of(request))
    found = _found(request)
    if asked.stream:
        raise asked.error("stream", "must be false: the response is whole, and only one that is being made is streamed")
    return _whole(request, [found.body])


async def delete(request: Request) -> Response:
    name = request.path_params["response"]
    if not responses_of(request).remove(name, owner_of(request)):
        raise _unknown(name)
    return JSONResponse({"id": name, "object": "response", "deleted": True})


async def cancel(request: Request) -> Response:
    """Raises InvalidRequest: no response here runs in the background."""
    _found(request)
    text = "Cannot cancel a synchronous response: close its connection instead. The server has no background responses"
    raise InvalidRequest(text, param="response_id")


async def input_items(request: Request) -> Response:
    asked = ItemsQuery(_query(request), limits_of(request))
    found = _found(request)
    items = list(found.items[: found.inputs])
    if asked.order == "desc":
        items.reverse()
    if asked.after:
        places = [at for at, one in enumerate(items) if one.id == asked.after]
        if not places:
            raise asked.error("after", f"names no item of this response: {clipped(asked.after, SHOWN)!r}")
        items = items[places[0] + 1 :]
    page = items[: asked.limit]
    about: dict[str, Any] = {
        "object": "list",
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
        "has_more": len(items) > len(page),
    }
    # The items are JSON already: a hundred of them may have megabytes, which nobody else should wait for.
    parts = [part for one in page for part in (b", ", one.data)][1:]
    return _whole(request, [json.dumps(about).encode()[:-1] + b', "data": [', *parts, b"]}"])


def _whole(request: Request, parts: Sequence[bytes]) -> Response:
    """The answer. It counts until it is read: the store may have forgotten it by then. Raises Busy."""
    pool: Pool = request.app.state.pool
    kept = Kept(pool.deliveries, client_of(request.scope))
    kept.add(sum(map(len, parts)))
    return Whole(parts, "application/json", kept)


def _query(request: Request) -> Fields:
    """The query, in which a name of a list may end in []."""
    pairs: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        name = name.removesuffix("[]")
        pairs[name] = [*pairs.get(name, []), value] if name == "include" else value
    return Fields(pairs, written=True)


def _found(request: Request) -> StoredResponse:
    """The client's stored response that the path names. Raises NotFound."""
    name = request.path_params["response"]
    if (found := responses_of(request).find(name, owner_of(request))) is None:
        raise _unknown(name)
    return found


def _unknown(name: str) -> NotFound:
    text = f"Response with id '{clipped(name, SHOWN)}' not found. The server keeps the latest responses of each client "
    return NotFound(f"{text}in memory, where store is not false", param="response_id")
