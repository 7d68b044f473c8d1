"""The memory routes: the governor's reports, and loading and closing engines by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import models
from edgeserve.api.fields import NAME_CHARS, clipped
from edgeserve.api.json_body import read_json
from edgeserve.api.presence import unless_gone
from edgeserve.api.schema import Objects, Strict
from edgeserve.api.values import Text, Texts
from edgeserve.errors import NotFound
from edgeserve.jobs import ALL_JOBS, Job
from edgeserve.residency.aside import Aside
from edgeserve.residency.pool import Pool

Endpoint = Callable[[Request], Awaitable[Response]]


MOST_NAMED = 64
"""Models that one request may load, by each of its fields: each name is looked up on the event loop."""


class Named(Strict):
    """A model to load. Other fields, such as those of ``/memory/models``, are accepted and change nothing."""

    OPEN = True
    ANY_OF = ("name", "model_type")
    name = Text("of the model; required without model_type", limit=NAME_CHARS)
    model_type = Text("the model's engine", limit=NAME_CHARS)

    def model(self, pool: Pool) -> str:
        """Id of the model that is meant. Raises NotFound."""
        if self.model_type:
            of_job = pool.find(self.name, (job_named(self.model_type, "models"),))
            return of_job or meant(pool, self.model_type, "models")
        return meant(pool, self.name, "models")


class Preload(Strict):
    """The body of POST /memory/preload."""

    ANY_OF = ("engines", "models")
    engines = Texts("models or engines to load", MOST_NAMED)
    models = Objects("to load", Named, limit=MOST_NAMED)


READS = Aside("reports on memory", threads=1)
"""One thread, since each report holds the interpreter for some milliseconds, and defragmenting longer."""


def reading(name: str) -> Endpoint:
    """The endpoint of one of the governor's reports. A report reads the system, so a thread makes it."""

    async def endpoint(request: Request) -> Response:
        pool: Pool = request.app.state.pool
        report: Callable[[], Any] = getattr(pool.governor, name)
        return JSONResponse(await READS.run(report))

    return endpoint


stats, health = reading("stats"), reading("health")
evictions, offloaded = reading("evictions"), reading("offloaded")
fragmentation, defragment = reading("fragmentation"), reading("defragment_by_hand")


async def list_models(request: Request) -> Response:
    return JSONResponse(await model_rows(request.app.state.pool))


async def model_rows(pool: Pool) -> list[dict[str, Any]]:
    """The governor's report on the models, with the default of each job.

    In the order of the settings; models that leave stand behind.
    """
    defaults, order = pool.directory.defaults(), {model: place for place, model in enumerate(pool.gates)}
    rows = sorted(await READS.run(pool.governor.models), key=lambda row: order.get(str(row["id"]), len(order)))
    return [row | {"default": row["id"] in defaults} for row in rows]


async def evict(request: Request) -> Response:
    """Close one engine. Raises Busy while a request holds the engine: no answer is ever cut."""
    pool: Pool = request.app.state.pool
    model = meant(pool, request.path_params["engine"], "engine")
    specs = pool.configured  # as they are now: the model may be removed meanwhile
    if not await pool.evict(model):
        raise pool.in_use(model)
    return JSONResponse({"status": "evicted", "model_type": specs[model].job})


async def preload(request: Request) -> Response:
    """Load engines, up to hot."""
    pool: Pool = request.app.state.pool
    asked = await read_json(request, Preload)
    named = (meant(pool, clipped(name, NAME_CHARS), "engines") for name in asked.engines)
    wanted = [*named, *(one.model(pool) for one in asked.models)]
    specs = pool.configured  # those of now: a model may be removed while others load
    done = await unless_gone(request, pool.preload(dict.fromkeys(wanted)))  # each once, however often it is named
    return JSONResponse({"results": {f"{specs[one].job}:{specs[one].name}": hot for one, hot in done.items()}})


def meant(pool: Pool, name: str, param: str) -> str:
    """Id of the model that ``name`` means, as in a request. Raises NotFound.

    For a job without a model: the job, whose gate says so.
    """
    if name and (found := pool.find(name, ALL_JOBS)) is not None:
        return found
    if name in ALL_JOBS:
        return models.choose(pool, "", (job_named(name, param),))
    served = ", ".join(pool.gates) or "none"
    text = f"there is no model or engine {name!r}; models: {served}; engines: {', '.join(ALL_JOBS)}"
    raise NotFound(text, param=param)


def job_named(name: str, param: str) -> Job:
    """Raises NotFound."""
    for job in ALL_JOBS:
        if name == job:
            return job
    raise NotFound(f"there is no engine {name!r}; engines: {', '.join(ALL_JOBS)}", param=param)
