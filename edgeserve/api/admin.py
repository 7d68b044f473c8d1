"""The memory routes: what the governor knows, and moving engines by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api.fields import NAME_CHARS, Fields, clipped, read_json
from edgeserve.engine import ALL_JOBS, Job
from edgeserve.errors import Busy, NotFound
from edgeserve.residency.aside import Aside
from edgeserve.residency.pool import Pool

Endpoint = Callable[[Request], Awaitable[Response]]
READS = Aside("reports on memory", threads=1)
"""One at a time: each holds the interpreter for some milliseconds, defragmenting for more."""


def reading(name: str) -> Endpoint:
    """The endpoint of one of the governor's reports; it reads the system, so it runs off the event loop."""

    async def endpoint(request: Request) -> Response:
        pool: Pool = request.app.state.pool
        report: Callable[[], Any] = getattr(pool.governor, name)
        return JSONResponse(await READS.run(report))

    return endpoint


async def evict(request: Request) -> Response:
    """Close one engine. Busy while a request holds it: nothing in flight is ever cut."""
    pool: Pool = request.app.state.pool
    job = _job(request.path_params["engine"])
    if not await pool.evict(job):
        raise Busy(f"{job} is answering a request; it is not closed under it, try again", retry_after=5)
    return JSONResponse({"status": "evicted", "model_type": job})


async def preload(request: Request) -> Response:
    """Bring engines up to hot: ``{"models": [{"name", "model_type"}]}`` or ``{"engines": ["asr"]}``."""
    pool: Pool = request.app.state.pool
    fields = await read_json(request)
    fields.only(("models", "engines"))
    jobs = [_job(clipped(name, NAME_CHARS)) for name in fields.texts("engines", len(ALL_JOBS))]
    if fields.has("models"):
        jobs += [_named(pool, one) for one in fields.objects("models")]
    if not jobs:
        raise fields.error("engines", f"is required: a list of {', '.join(ALL_JOBS)}")
    done = await pool.preload(dict.fromkeys(jobs))  # each once, however often it is named
    return JSONResponse({"results": {f"{job}:{pool.configured[job].name}": hot for job, hot in done.items()}})


def _named(pool: Pool, fields: Fields) -> Job:
    if kind := fields.text("model_type", limit=NAME_CHARS):
        return _job(kind)
    name = fields.required_text("name", limit=NAME_CHARS).lower()
    for job, spec in pool.configured.items():
        if spec.name.lower() == name:
            return job
    raise NotFound(f"the model {name!r} is not served here", param="models")


def _job(name: str) -> Job:
    for job in ALL_JOBS:
        if name == job:
            return job
    raise NotFound(f"there is no engine {name!r}; engines: {', '.join(ALL_JOBS)}", param="engine")
