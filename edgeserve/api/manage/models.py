"""The routes that move and remove models by hand."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import failures
from edgeserve.api.admin import meant
from edgeserve.api.fields import NAME_CHARS
from edgeserve.api.json_body import read_json
from edgeserve.api.manage.pulls import DISK
from edgeserve.api.presence import unless_gone
from edgeserve.api.schema import Strict
from edgeserve.api.values import Enum, Text
from edgeserve.engine import ModelSpec, Rung
from edgeserve.manage.manager import Manager
from edgeserve.models.store import Store
from edgeserve.residency.pool import Pool

RUNGS = {"cold": Rung.COLD, "warm": Rung.WARM, "hot": Rung.HOT}


class Load(Strict):
    """The body of POST /admin/load."""

    model = Text("a name of the model", required=True, limit=NAME_CHARS)
    to = Enum("the rung to reach: hot computes at once, warm is mapped", ("warm", "hot"), default="hot")


class Unload(Strict):
    """The body of POST /admin/unload."""

    model = Text("a name of the model", required=True, limit=NAME_CHARS)
    to = Enum("the rung to go down to: cold frees all memory, warm stays mapped", ("cold", "warm"), default="cold")


def manager_of(request: Request) -> Manager:
    manager: Manager = request.app.state.manager
    return manager


async def load(request: Request) -> Response:
    """Bring a model up, and answer when it is there. A client that leaves ends the wait, not the load."""
    asked = await read_json(request, Load)
    pool: Pool = request.app.state.pool
    model = meant(pool, asked.model.strip(), "model")
    specs = pool.configured  # as they are now: the model may be removed meanwhile
    rung = await unless_gone(request, manager_of(request).load(model, RUNGS[asked.to]))
    return _moved(specs[model], rung)


async def unload(request: Request) -> Response:
    """Let a model step down. Raises Busy while a request holds it: no answer is ever cut."""
    asked = await read_json(request, Unload)
    pool: Pool = request.app.state.pool
    model = meant(pool, asked.model.strip(), "model")
    specs = pool.configured
    rung = await manager_of(request).unload(model, RUNGS[asked.to])
    return _moved(specs[model], rung)


async def list_stored(request: Request) -> Response:
    """The models on this device, and whether each is served."""
    manager, pool = manager_of(request), request.app.state.pool
    served = {spec.name for spec in pool.configured.values()}
    rows = await DISK.run(_stored, manager.store)
    return JSONResponse({"models": [row | {"served": row["name"] in served} for row in rows]})


def _stored(store: Store) -> list[dict[str, Any]]:
    whole = [
        {"name": one.name, "job": one.job, "size_bytes": one.size_bytes, "licence": one.licence} for one in store.list()
    ]
    return whole + [{"name": name} | failures.body(error) for name, error in store.damaged().items()]


async def remove(request: Request) -> Response:
    """Delete the files of a model that is not served."""
    name = await manager_of(request).remove(request.path_params["model"])
    return JSONResponse({"model": name, "status": "removed"})


def _moved(spec: ModelSpec, rung: Rung) -> Response:
    return JSONResponse({"model": spec.name, "id": spec.id, "rung": rung.name.lower()})
