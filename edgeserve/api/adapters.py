"""LoRA adapters of a request: by the name in ``model``, or by llama-server's field ``lora``."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import models
from edgeserve.api.question import Prompt
from edgeserve.api.schema import Objects, Record
from edgeserve.api.values import Integer, Number
from edgeserve.errors import NotSupported
from edgeserve.jobs import CHAT
from edgeserve.residency.pool import Pool

MAX_ADAPTERS = 64
"""Entries of ``lora``, and so adapters of a model that a request can use together."""

Chosen = tuple[tuple[str, float], ...] | None
"""Roles and scales of the adapters to apply; None: those that every answer uses."""


class Use(Record):
    """One adapter of a request."""

    id = Integer("its number in GET /lora-adapters", 0, MAX_ADAPTERS - 1, default=0)
    scale = Number("factor of its change; 0: without it", -100, 100, default=1.0)


class Adapted(Prompt):
    """A request to a language model that may have adapters."""

    lora = Objects(
        "adapters to apply, and no others; left out: the one that model names, and those of every answer",
        Use,
        empty=True,
        limit=MAX_ADAPTERS,
    )

    def adapters(self, pool: Pool, model: str) -> Chosen:
        """The adapters to apply for an answer of ``model``. Raises InvalidRequest for one that it does not have."""
        if not self.has("lora"):
            return named(pool, model, self.model)
        known = pool.gates[model].spec.adapters if model in pool.gates else ()
        for number, one in enumerate(self.lora):
            if one.id >= len(known):
                have = f"has {len(known)} adapters, numbered from 0" if known else "has no adapters"
                raise self.error(f"lora[{number}].id", f"must be the number of an adapter; this model {have}")
        return tuple((known[one.id].role, one.scale) for one in self.lora)


def named(pool: Pool, model: str, wanted: str) -> Chosen:
    """The adapters for a request that names ``wanted`` in its field ``model``."""
    chosen = pool.directory.adapter(model, wanted) if model in pool.gates else None
    if chosen is None:
        return None
    every = pool.gates[model].spec.adapters
    return tuple((one.role, one.scale) for one in every if one is chosen or not one.name)


async def set_adapters(request: Request) -> Response:
    """llama-server's POST, which changes the scales of all answers. Raises NotSupported with the ways that work."""
    raise NotSupported(
        "POST /lora-adapters would change the answers of all clients, and is not supported: send "
        '"lora": [{"id": 0, "scale": 0.5}] with each request, or name an adapter in its field model; '
        "adapters of every answer stand in models.toml, which `edgeserve reload` reads again"
    )


async def list_adapters(request: Request) -> Response:
    """llama-server's list, of the model that the query names."""
    pool: Pool = request.app.state.pool
    model = models.choose(pool, request.query_params.get("model", ""), CHAT)
    adapters = pool.gates[model].spec.adapters if model in pool.gates else ()
    return JSONResponse(
        [
            {
                "id": number,
                "path": pool.gates[model].spec.files[one.role].name,
                "scale": 0.0 if one.name else one.scale,
                "name": one.name,
            }
            for number, one in enumerate(adapters)
        ]
    )
