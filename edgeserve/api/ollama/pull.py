"""POST /api/pull: a model fetched, its progress in Ollama's words; and DELETE /api/delete."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import failures
from edgeserve.api.manage.models import manager_of
from edgeserve.api.manage.pulls import DISK, end_of, pulls_of, states
from edgeserve.api.manage.stream import EventStream
from edgeserve.api.ollama import names, ndjson
from edgeserve.api.ollama.failure import PATHS
from edgeserve.api.ollama.request import Named, read
from edgeserve.api.values import Flag
from edgeserve.errors import Cancelled, NotFound
from edgeserve.jobs import ALL_JOBS
from edgeserve.models import catalog
from edgeserve.models.pull import Pull, PullState
from edgeserve.residency.pool import Pool

SUCCESS = {"status": "success"}
WORDS = {"verify": "verifying sha256 digest", "convert": "writing manifest", "prepare": "writing manifest"}
"""Ollama's words for the stages after the download. Clients take any word but "success" for a stage."""
MANIFEST = "pulling manifest"


class OllamaPull(Named):
    """The body of POST /api/pull."""

    stream = Flag("a line for each step; false: one object at the end", default=True)
    insecure = Flag("accepted; it changes nothing here")


class OllamaDelete(Named):
    """The body of DELETE /api/delete."""


async def pull(request: Request) -> Response:
    """Start a pull, or join the one under way. The last client that leaves its stream ends the pull."""
    asked = await read(request, OllamaPull)
    found = await _started(request, asked.wanted)
    if found is None:
        return Response(ndjson.line(SUCCESS), media_type=ndjson.MEDIA_TYPE) if asked.stream else JSONResponse(SUCCESS)
    if asked.stream:
        return EventStream(_lines(found), found.let_go, ndjson.MEDIA_TYPE)
    await end_of(request, found)
    return JSONResponse(SUCCESS)


async def _started(request: Request, asked: str) -> Pull | None:
    """The pull of a model; None where it is served here already, under a name that no source has.

    Raises NotFound in Ollama's words, and as POST /admin/pull.
    """
    pool: Pool = request.app.state.pool
    name = next((one for one in names.readings(asked) if catalog.knows(one)), "")
    if not name and names.find(pool, asked, ALL_JOBS) is not None:
        return None
    try:
        return await DISK.run(pulls_of(request).start, name or asked)
    except NotFound as error:
        text = f"pull model manifest: file does not exist: {error.message}"
        raise NotFound(text, param="model") from None


async def _lines(pull: Pull) -> AsyncGenerator[bytes, None]:
    yield ndjson.line({"status": MANIFEST})
    async with contextlib.aclosing(states(pull)) as found:
        async for state in found:
            yield ndjson.line(told(pull, state))


def told(pull: Pull, state: PullState) -> dict[str, Any]:
    """A state as a line. Clients draw a bar for each digest."""
    if state.error is not None:
        return failures.body(state.error, PATHS)
    if state.stage == "cancelled":
        return failures.body(Cancelled(f"the pull of {pull.name} was cancelled"), PATHS)
    if state.stage == "success":
        return SUCCESS
    if state.stage != "download" or not state.total:
        return {"status": WORDS.get(state.stage, MANIFEST)}
    digest = _digest(state.part)
    done = {"completed": state.done} if state.done else {}
    return {"status": f"pulling {digest[:12]}", "digest": f"sha256:{digest}", "total": state.total, **done}


def _digest(part: str) -> str:
    """The checksum of a part's main file where the catalogue knows it, else one of its name: it names the bar."""
    known = catalog.find(part).checksums.get("model", "") if catalog.knows(part) else ""
    return known if len(known) == 64 else hashlib.sha256(part.encode()).hexdigest()


async def delete(request: Request) -> Response:
    """Delete the files of a model. Raises ModelNotFound, and InUse for a model of models.toml."""
    asked = await read(request, OllamaDelete)
    manager = manager_of(request)
    for name in names.readings(asked.wanted):
        with contextlib.suppress(NotFound):
            await manager.remove(name)
            return Response(status_code=200)
    raise names.missing(request.app.state.pool, asked.wanted)
