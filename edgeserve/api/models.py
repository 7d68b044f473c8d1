"""The models that are served, and the one that a request means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.engine import Rung
from edgeserve.errors import ModelNotFound
from edgeserve.jobs import ALL_JOBS, CHAT, PICTURES, Job
from edgeserve.messages import Message
from edgeserve.model_settings import NAME
from edgeserve.residency.pool import Pool

MOST_NAMED = 20
"""Models that an error names."""
CREATED = 1_735_689_600
"""Time of creation in OpenAI's shape: 2025-01-01 for every model, as files of models have none that matters."""


def choose(pool: Pool, model: str, jobs: Sequence[Job]) -> str:
    """Id of the model among those of ``jobs`` that ``model`` names; the default for an empty name.

    Where the device serves no model of these jobs, or none without a name: the first job, whose lease says so. Raises
    ModelNotFound, which names the known models.
    """
    if (found := pool.find(model, jobs)) is not None:
        return found
    served = pool.directory.of(jobs)
    if not served or not model:
        return jobs[0]
    names = (pool.directory.names(spec.id) for spec in served)
    known = list(dict.fromkeys(f"{name} ({', '.join(further)})" if further else name for name, *further in names))
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    text = f"the model {model!r} is not served here for this; served: {', '.join(known[:MOST_NAMED])}{more}"
    raise ModelNotFound(f"{text}. {how_to_add(model, jobs[0])}", param="model")


def how_to_add(model: str, job: Job) -> str:
    """The commands that let the server serve a model; NAME stands for one that is no name."""
    name = model if NAME.fullmatch(model) else "NAME"
    of_job = "" if job == "llm" else f'job = "{job}" and '  # as [models.NAME] has it by default
    return (
        f"To add a model: `edgeserve pull {name}`, [models.NAME] in models.toml with {of_job}"
        f'model = "{name}", and `edgeserve reload`'
    )


def name(pool: Pool, model: str, wanted: str = "") -> str:
    """The public name of a model, or of its adapter that ``wanted`` means; empty for one that is not served."""
    if model not in pool.gates:
        return ""
    adapter = pool.directory.adapter(model, wanted)
    return adapter.name if adapter else pool.gates[model].spec.name


def answering_chat(messages: Iterable[Message]) -> tuple[Job, ...]:
    """Engines that can continue the conversation, the preferred one first."""
    return PICTURES if any(message.images for message in messages) else CHAT


async def list_models(request: Request) -> Response:
    """Both shapes in one body: OpenAI's ``data`` and the native ``models``."""
    pool: Pool = request.app.state.pool
    defaults = pool.directory.defaults()
    native = [
        {
            "name": spec.name,
            "type": spec.job,
            "loaded": pool.rung(model) is Rung.HOT,
            "rung": pool.rung(model).name.lower(),
            "default": model in defaults,
        }
        for model, spec in pool.configured.items()
    ]
    system = {"memory_total_bytes": request.app.state.memory_total()}
    listed = {spec.name: _openai(spec.name) for spec in pool.configured.values()}
    for spec in pool.configured.values():
        for one in spec.adapters:
            if one.name:
                listed.setdefault(one.name, _openai(one.name) | {"parent": spec.name})
    return JSONResponse({"object": "list", "data": list(listed.values()), "models": native, "system": system})


async def get_model(request: Request) -> Response:
    pool: Pool = request.app.state.pool
    wanted = request.path_params["model"]
    model = choose(pool, wanted, ALL_JOBS) if pool.gates else None
    if model is None:
        raise ModelNotFound(
            f"the model {wanted!r} is not served here; no engine is configured. {how_to_add(wanted, 'llm')}",
            param="model",
        )
    return JSONResponse(_openai(name(pool, model, wanted)))


def _openai(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "edgeserve"}
