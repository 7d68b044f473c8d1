"""The models that are served, and the one that a request means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.engine import Rung
from edgeserve.errors import ModelNotFound
from edgeserve.jobs import CHAT, PICTURES, Job
from edgeserve.messages import Message
from edgeserve.residency.pool import Pool

MODEL = "a configured model or the name of its engine; left out: the default"
"""Describes the field ``model``."""
CREATED = 1_735_689_600
"""Time of creation in OpenAI's shape: 2025-01-01 for every model, as files of models have none that matters."""


def choose(pool: Pool, model: str, jobs: Sequence[Job]) -> Job:
    """The job among ``jobs`` whose model or whose own name is ``model``, in any case; the first one for an empty name.

    Raises ModelNotFound, which names the known models.
    """
    candidates = [job for job in jobs if job in pool.configured]
    if not model or not candidates:
        return candidates[0] if candidates else jobs[0]
    for job in candidates:
        if model.lower() in (pool.configured[job].name.lower(), job):
            return job
    known = ", ".join(pool.configured[job].name for job in candidates)
    raise ModelNotFound(f"the model {model!r} is not served here for this; served: {known}", param="model")


def name(pool: Pool, job: Job) -> str:
    """The model's name as the configuration writes it; empty for an engine that is not configured."""
    return pool.configured[job].name if job in pool.configured else ""


def answering_chat(messages: Iterable[Message]) -> tuple[Job, ...]:
    """Engines that can continue the conversation, the preferred one first."""
    return PICTURES if any(message.images for message in messages) else CHAT


async def list_models(request: Request) -> Response:
    """Both shapes in one body: OpenAI's ``data`` and the native ``models``."""
    pool: Pool = request.app.state.pool
    native = [
        {"name": spec.name, "type": job, "loaded": pool.rung(job) is Rung.HOT, "rung": pool.rung(job).name.lower()}
        for job, spec in pool.configured.items()
    ]
    system = {"memory_total_bytes": request.app.state.memory_total()}
    names = dict.fromkeys(spec.name for spec in pool.configured.values())
    return JSONResponse(
        {"object": "list", "data": [_openai(name) for name in names], "models": native, "system": system}
    )


async def get_model(request: Request) -> Response:
    pool: Pool = request.app.state.pool
    wanted = request.path_params["model"]
    job = choose(pool, wanted, tuple(pool.configured)) if pool.configured else None
    if job is None:
        raise ModelNotFound(f"the model {wanted!r} is not served here; no engine is configured", param="model")
    return JSONResponse(_openai(pool.configured[job].name))


def _openai(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "edgeserve"}
