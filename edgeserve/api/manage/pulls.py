"""The routes of pulls: start, follow, list, cancel."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import failures, sse
from edgeserve.api.json_body import read_json
from edgeserve.api.manage.stream import EventStream, Woken
from edgeserve.api.presence import unless_gone
from edgeserve.api.schema import Strict
from edgeserve.api.values import Flag, Text
from edgeserve.errors import Cancelled, InUse
from edgeserve.models.pull import Pull, PullState
from edgeserve.models.pulls import Pulls
from edgeserve.residency.aside import Aside

SOURCE_CHARS = 4096
"""Characters of a source: an address with its query."""
DISK = Aside("looks at the store", threads=1)
"""The checks of a new pull and removals read and write the disk."""


class PullOrder(Strict):
    """The body of POST /admin/pull."""

    model = Text("a catalogue name, hub:org/repo[/file][@revision], or a URL", required=True, limit=SOURCE_CHARS)
    stream = Flag("the progress as events; false: one answer at the end", default=True)
    background = Flag("answer at once; the pull goes on without a client")


def as_json(pull: Pull) -> dict[str, Any]:
    """The state of a pull, as all routes show it."""
    return _json(pull, pull.state)


def _json(pull: Pull, state: PullState) -> dict[str, Any]:
    found: dict[str, Any] = {
        "model": pull.name,
        "status": state.stage,
        "part": state.part,
        "done": state.done,
        "total": state.total,
        "source": pull.source,
    }
    if state.stored is not None:
        found |= {"size_bytes": state.stored.size_bytes, "licence": state.stored.licence}
    return found | (failures.body(state.error) if state.error is not None else {})


def pulls_of(request: Request) -> Pulls:
    pulls: Pulls = request.app.state.pulls
    return pulls


async def pull(request: Request) -> Response:
    """Start a pull, or join the one under way. The last client that leaves its stream ends the pull."""
    asked = await read_json(request, PullOrder)
    found = await DISK.run(pulls_of(request).start, asked.model.strip())
    if asked.background:
        return JSONResponse(as_json(found), 202)  # the hold stays
    if asked.stream:
        return EventStream(_events(found), found.let_go)
    return JSONResponse(_json(found, await end_of(request, found)))


async def end_of(request: Request, pull: Pull) -> PullState:
    """The last state of a pull on which the caller has a hold, which this gives back. Raises the pull's error."""
    try:
        end = await unless_gone(request, _end(pull))
    finally:
        pull.let_go()
    if end.error is not None:
        raise end.error
    if end.stage == "cancelled":
        raise Cancelled(f"the pull of {pull.name} was cancelled")
    return end


async def follow(request: Request) -> Response:
    """The progress of a pull as events. Leaving the stream does not end the pull."""
    return EventStream(_events(pulls_of(request).find(request.path_params["model"])))


async def list_pulls(request: Request) -> Response:
    return JSONResponse({"pulls": [as_json(one) for one in pulls_of(request).all()]})


async def cancel(request: Request) -> Response:
    """End a pull for all its clients. Raises NotFound, and InUse where it is too late."""
    found = pulls_of(request).find(request.path_params["model"])
    if not found.cancel():
        raise InUse(f"the pull of {found.name} has ended ({found.state.stage}) or ends now; nothing was cancelled")
    return JSONResponse(as_json(found))


async def _events(pull: Pull) -> AsyncGenerator[bytes, None]:
    async with contextlib.aclosing(states(pull)) as found:
        async for state in found:
            yield sse.event(_json(pull, state))


async def _end(pull: Pull) -> PullState:
    last = pull.state
    async with contextlib.aclosing(states(pull)) as found:
        async for state in found:
            last = state
    return last


async def states(pull: Pull) -> AsyncGenerator[PullState, None]:
    """The states of a pull, to its end: the present one, then each that a reader has time for."""
    woken = Woken()
    end = pull.follow(woken.wake)
    try:
        while True:
            state = pull.state
            yield state
            if state.over:
                return
            await woken.wait()
    finally:
        end()
