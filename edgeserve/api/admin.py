"""The memory routes: the governor's reports, and loading and closing engines by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api.fields import NAME_CHARS, Fields, clipped
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import Limits
from edgeserve.api.presence import unless_gone
from edgeserve.api.schema import Field, Objects, Record
from edgeserve.api.values import Text
from edgeserve.errors import Busy, NotFound
from edgeserve.jobs import ALL_JOBS, Job
from edgeserve.residency.aside import Aside
from edgeserve.residency.pool import Pool

Endpoint = Callable[[Request], Awaitable[Response]]


class Engines(Field[tuple[Job, ...]]):
    """Names of engines. Raises NotFound for an unknown name."""

    def __init__(self) -> None:
        super().__init__("to load", ())

    def read(self, fields: Fields, limits: Limits) -> tuple[Job, ...]:
        return tuple(_job(clipped(name, NAME_CHARS), self.name) for name in fields.texts(self.name, len(ALL_JOBS)))

    def schema(self, limits: Limits) -> dict[str, Any]:
        name = {"type": "string", "enum": list(ALL_JOBS)}
        return {"oneOf": [name, {"type": "array", "items": name, "maxItems": len(ALL_JOBS)}]}


class Named(Record):
    """A model to load. Other fields, such as those of ``/memory/models``, are accepted and change nothing."""

    OPEN = True
    name = Text("of the model; required without model_type", limit=NAME_CHARS)
    model_type = Text("the model's engine", limit=NAME_CHARS)

    def job(self, pool: Pool) -> Job:
        """The engine that is meant. Raises InvalidRequest and NotFound."""
        if self.model_type:
            return _job(self.model_type, "models")
        if not self.name.strip():
            raise self.error("name", "is required and must not be empty")
        for job, spec in pool.configured.items():
            if spec.name.lower() == self.name.lower():
                return job
        raise NotFound(f"the model {self.name.lower()!r} is not served here", param="models")


class Preload(Record):
    """The body of POST /memory/preload."""

    engines = Engines()
    models = Objects("to load", Named)


READS = Aside("reports on memory", threads=1)
"""One thread, since each report holds the interpreter for some milliseconds, and defragmenting longer."""


def reading(name: str) -> Endpoint:
    """The endpoint of one of the governor's reports. A report reads the system, so a thread makes it."""

    async def endpoint(request: Request) -> Response:
        pool: Pool = request.app.state.pool
        report: Callable[[], Any] = getattr(pool.governor, name)
        return JSONResponse(await READS.run(report))

    return endpoint


async def evict(request: Request) -> Response:
    """Close one engine. Raises Busy while a request holds the engine: no answer is ever cut."""
    pool: Pool = request.app.state.pool
    job = _job(request.path_params["engine"], "engine")
    if not await pool.evict(job):
        raise Busy(f"{job} is answering a request; it is not closed under it, try again", retry_after=5)
    return JSONResponse({"status": "evicted", "model_type": job})


async def preload(request: Request) -> Response:
    """Load engines, up to hot."""
    pool: Pool = request.app.state.pool
    asked = await read_json(request, Preload)
    jobs = [*asked.engines, *(one.job(pool) for one in asked.models)]
    if not jobs:
        raise asked.error("engines", f"is required: a list of {', '.join(ALL_JOBS)}")
    done = await unless_gone(request, pool.preload(dict.fromkeys(jobs)))  # each once, however often it is named
    return JSONResponse({"results": {f"{job}:{pool.configured[job].name}": hot for job, hot in done.items()}})


def _job(name: str, param: str) -> Job:
    for job in ALL_JOBS:
        if name == job:
            return job
    raise NotFound(f"there is no engine {name!r}; engines: {', '.join(ALL_JOBS)}", param=param)
