"""The models that are served, and the one that a request means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api.anthropic import listing
from edgeserve.api.anthropic.headers import speaks
from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import ModelNotFound
from edgeserve.jobs import ALL_JOBS, CHAT, PICTURES, Job
from edgeserve.manage.manager import Manager
from edgeserve.messages import Message
from edgeserve.model_settings import NAME
from edgeserve.models import catalog
from edgeserve.models.stored import StoredModel
from edgeserve.residency.aside import Aside
from edgeserve.residency.names import jobs_of, spellings
from edgeserve.residency.pool import Pool

SHELF = Aside("looks at pulled models", threads=1)
MOST_NAMED = 20
"""Models that an error names."""
CREATED = 1_735_689_600
"""Time of creation in OpenAI's shape: 2025-01-01 for every model, as files of models have none that matters."""


def choose(pool: Pool, model: str, jobs: Sequence[Job], *, stand_in: bool = True) -> str:
    """Id of the model among those of ``jobs`` that ``model`` names; the default for an empty name.

    1. The model of that name, or of that entry of the catalogue.
    2. Where the device serves no model of these jobs, or none without a name: the first job, whose lease says so. Where
       it also serves pulled models, a name may mean one of them, but for the name of a job.
    3. With ``[server] unknown_models = "default"``, the model that stands in for one that is not here, where a
       ``stand_in`` will do.

    Raises ModelNotFound, which names the known models.
    """
    # 1.
    if (found := found_by_name(pool, model, jobs)) is not None:
        return found
    # 2.
    served = pool.directory.of(jobs)
    if not model or (not served and (model.lower() in ALL_JOBS or not pool.serves_stored)):
        return jobs[0]
    # 3.
    if stand_in and pool.stand_ins and _may_mean(pool, model, jobs):
        default = pool.directory.stand_in(jobs)
        if default is not None:
            return default
    raise _not_served(pool, model, " for this; served", served, jobs[0])


def found_by_name(pool: Pool, name: str, jobs: Sequence[Job]) -> str | None:
    """As ``Pool.find``; a name of the catalogue also finds the model of its entry."""
    if (found := pool.find(name, jobs)) is not None or not name:
        return found
    known = next((one for one in spellings(name) if catalog.knows(one)), None)
    return pool.find(catalog.find(known).name, jobs) if known else None


def _may_mean(pool: Pool, model: str, jobs: Sequence[Job]) -> bool:
    """Whether a request may mean a model of ``jobs`` by a name that none of them has.

    Models of other jobs have their own names, and the jobs of well-known models are known.
    """
    known = jobs_of(model)
    return found_by_name(pool, model, ALL_JOBS) is None and (not known or any(job in jobs for job in known))


def how_to_add(model: str, job: Job, *, stored: bool = False) -> str:
    """The commands that let the server serve a model; NAME stands for one that is no name.

    ``stored``: whether a pulled model needs no table.
    """
    name = model if NAME.fullmatch(model) else "NAME"
    if stored:
        return f"To add a model: `edgeserve pull {name}`"
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


async def shelved(request: Request) -> list[StoredModel]:
    """Pulled models, where requests may name them: with ``[server] serve = "stored"``. Raises StoreError."""
    manager: Manager = request.app.state.manager
    if manager.config.server.serve != "stored":
        return []
    return [one for one in await SHELF.run(manager.store.list) if one.job in ALL_JOBS]


async def list_models(request: Request) -> Response:
    """Both shapes in one body: OpenAI's ``data`` and the native ``models``. Anthropic's clients get their own.

    ``data`` also has the models that are served on demand; ``models`` has those with an engine.
    """
    pool: Pool = request.app.state.pool
    on_demand = await shelved(request)
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
    for stored in on_demand:
        listed.setdefault(stored.name, _openai(stored.name))
    if speaks(request.scope):
        return JSONResponse(listing.page(list(listed)))
    return JSONResponse({"object": "list", "data": list(listed.values()), "models": native, "system": system})


async def get_model(request: Request) -> Response:
    pool: Pool = request.app.state.pool
    wanted = request.path_params["model"]
    model = found_by_name(pool, wanted, ALL_JOBS)
    if model is None and pool.stand_ins:  # only for a well-known model: else every name would look like one
        model = pool.directory.stand_in(jobs_of(wanted))
    if model is None:
        raise _not_served(pool, wanted, "; served", pool.configured.values(), "llm")
    found = name(pool, model, wanted)
    return JSONResponse(listing.model(found) if speaks(request.scope) else _openai(found))


def _not_served(pool: Pool, model: str, here: str, served: Iterable[ModelSpec], job: Job) -> ModelNotFound:
    """``here``: where it is not served, and how the served ones are called. ``job``: the job of a model to add."""
    names = (pool.directory.names(spec.id) for spec in served)
    known = list(dict.fromkeys(f"{name} ({', '.join(further)})" if further else name for name, *further in names))
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    found = [f"{', '.join(known[:MOST_NAMED])}{more}"] if known else []
    if pool.serves_stored:
        found.append("any pulled model, by its name in GET /v1/models")
    listed = f"{here}: {'; '.join(found)}" if found else "; no engine is configured"
    way = how_to_add(model, job, stored=pool.serves_stored)
    return ModelNotFound(f"the model {model!r} is not served here{listed}. {way}", param="model")


def _openai(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "edgeserve"}
