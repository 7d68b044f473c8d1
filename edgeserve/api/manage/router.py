"""llama-server's router routes (llama.cpp, tools/server/README.md, "router mode"): the same acts in other words.

cold = unloaded    warm = sleeping    hot = loaded    a way up = loading    a pull under way = downloading
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import sse
from edgeserve.api.admin import meant
from edgeserve.api.admission import ADMISSION, Admission
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import limits_of
from edgeserve.api.manage.models import manager_of
from edgeserve.api.manage.pulls import DISK, SOURCE_CHARS, pulls_of
from edgeserve.api.manage.stream import EventStream, Woken
from edgeserve.api.models import CREATED, shelved
from edgeserve.api.presence import unless_gone
from edgeserve.api.schema import Strict
from edgeserve.api.values import Flag, Text
from edgeserve.engine import Rung
from edgeserve.errors import NotFound
from edgeserve.models.pull import Pull
from edgeserve.residency.pool import Pool

WORDS = {Rung.COLD: "unloaded", Rung.WARM: "sleeping", Rung.HOT: "loaded"}
DONE = {"success": True}
LOOK_SECONDS = 0.5
"""Time between two looks for changes of a stream of events."""
Event = dict[str, Any]
State = dict[str, Event]
"""The latest event by the model it is about."""


class RouterModel(Strict):
    """A request about one model. llama-server's other fields are accepted and change nothing."""

    OPEN = True
    model = Text("a name of the model", required=True, limit=SOURCE_CHARS)


class Listing(Strict):
    """The query of GET /models."""

    reload = Flag("accepted: the list is read anew each time")


class Chosen(Strict):
    """The query of DELETE /models."""

    model = Text("a name of the model", required=True, limit=NAME_CHARS)


async def list_models(request: Request) -> Response:
    """The models that are served, on demand too, and those that are being pulled."""
    Listing(Fields(dict(request.query_params), written=True), limits_of(request))
    pool: Pool = request.app.state.pool
    served = [
        _row(spec.name, {"value": _word(pool, model)}, aliases=pool.directory.terms(model).aliases)
        for model, spec in pool.configured.items()
    ]
    names = {one["id"] for one in served}
    on_demand = [one.name for one in await shelved(request) if one.name not in names]
    served += [_row(one, {"value": WORDS[Rung.COLD]}) for one in on_demand]
    names |= set(on_demand)
    pulled = [_row(one.name, _pull_status(one)) for one in _shown(pulls_of(request).all()) if one.name not in names]
    return JSONResponse({"object": "list", "data": [*served, *pulled]})


def _word(pool: Pool, model: str) -> str:
    gate = pool.gates[model]
    rung = gate.rung
    return "loading" if gate.host.loading and rung is not Rung.HOT else WORDS[rung]


def _row(name: str, status: dict[str, Any], aliases: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": CREATED,
        "owned_by": "edgeserve",
        "aliases": list(aliases),
        "status": status,
    }


def _shown(pulls: tuple[Pull, ...]) -> list[Pull]:
    """Pulls under way and failed ones; a pulled model is a model, and a cancelled pull is nothing."""
    return [one for one in pulls if one.state.stage not in ("success", "cancelled")]


def _pull_status(pull: Pull) -> dict[str, Any]:
    if pull.state.stage == "failed":
        return {"value": "unloaded", "failed": True, "exit_code": 1}
    return {"value": "downloading", "progress": _progress(pull)}


def _progress(pull: Pull) -> dict[str, Any]:
    state = pull.state
    return {pull.source: {"done": state.done, "total": state.total}}


async def load(request: Request) -> Response:
    """Bring a model up to hot, and answer when it is there."""
    asked = await read_json(request, RouterModel)
    model = meant(request.app.state.pool, asked.model, "model")
    await unless_gone(request, manager_of(request).load(model, Rung.HOT))
    return JSONResponse(DONE)


async def unload(request: Request) -> Response:
    """Close a model, or cancel its pull."""
    asked = await read_json(request, RouterModel)
    for pull in pulls_of(request).all():
        if asked.model.lower() in (pull.name.lower(), pull.what.lower()) and pull.cancel():
            return JSONResponse(DONE)
    model = meant(request.app.state.pool, asked.model, "model")
    await manager_of(request).unload(model, Rung.COLD)
    return JSONResponse(DONE)


async def pull(request: Request) -> Response:
    """Start a pull, which continues without its client. Raises as POST /admin/pull."""
    asked = await read_json(request, RouterModel)
    try:
        await DISK.run(pulls_of(request).start, asked.model.strip())
    except NotFound as error:
        if "/" in asked.model:
            text = f"{error.message}; a file of a hub is named hub:owner/repository/file.gguf here"
            raise NotFound(text, param="model") from None
        raise
    return JSONResponse(DONE)


async def remove(request: Request) -> Response:
    asked = Chosen(Fields(dict(request.query_params), written=True), limits_of(request))
    await manager_of(request).remove(asked.model)
    return JSONResponse(DONE)


async def events(request: Request) -> Response:
    """Changes of models and pulls as events, until the client leaves, its key is revoked or the server ends."""
    return EventStream(_events(request))


async def _events(request: Request) -> AsyncGenerator[bytes, None]:
    pool: Pool = request.app.state.pool
    pulls, woken, before = pulls_of(request), Woken(), State()
    admission: Admission = request.scope[ADMISSION]
    while not (pool.ending or admission.over):
        now = {one["model"]: one for one in _present(pool, pulls.all())}
        for event in differences(before, now):
            yield sse.event(event)
        before = now
        await woken.wait(LOOK_SECONDS)


def _present(pool: Pool, pulls: tuple[Pull, ...]) -> Iterator[Event]:
    """The state of each model and pull, as the event that reports it."""
    for pull in reversed(pulls):  # the latest pull of a model is the last word
        stage = pull.state.stage
        if stage == "cancelled":
            continue
        kind = {"success": "download_finished", "failed": "download_failed"}.get(stage, "download_progress")
        yield {"model": pull.name, "event": kind, "data": _progress(pull) if kind == "download_progress" else {}}
    for model, spec in pool.configured.items():
        yield {"model": spec.name, "event": "model_status", "data": {"status": _word(pool, model)}}


def differences(before: State, now: State) -> Iterator[Event]:
    """The events that lead from one state to another."""
    if {name for name, one in before.items() if one["event"] == "model_status"} - now.keys():
        yield {"model": "*", "event": "models_reload", "data": {}}
    yield from ({"model": name, "event": "model_remove", "data": {}} for name in before if name not in now)
    yield from (one for name, one in now.items() if before.get(name) != one)
