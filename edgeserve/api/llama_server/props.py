"""llama-server's properties of a model, as its web page and editor plugins read them."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import edgeserve
from edgeserve.api import models
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import limits_of
from edgeserve.api.ollama.details import facts
from edgeserve.api.schema import Record
from edgeserve.api.values import Flag, Text
from edgeserve.engine import Rung
from edgeserve.jobs import CHAT, INFO
from edgeserve.residency.pool import Pool

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repeat_penalty")
"""Options of a model that are defaults of requests."""


class PropsQuery(Record):
    """The query of GET /props."""

    model = Text("a chat model; left out: the default", limit=NAME_CHARS)
    autoload = Flag("accepted: looking at a model never loads it")


async def props(request: Request) -> Response:
    """Properties of a chat model. Never loads it: while it has no context, ``n_ctx`` is the configured one or 0."""
    pool: Pool = request.app.state.pool
    asked = PropsQuery(Fields(dict(request.query_params), written=True), limits_of(request))
    model = models.choose(pool, asked.model, CHAT)
    rung = pool.rung(model)  # raises NotConfigured
    host = pool.gates[model].host
    options = host.spec.options
    size = host.context_tokens
    return JSONResponse(
        {
            "default_generation_settings": {
                "n_ctx": options.get("context", 0) if size is None else size,
                "params": {name: options[name] for name in SAMPLING if name in options},
            },
            "total_slots": host.slots,
            "model_alias": host.spec.name,
            "model_path": host.spec.files["model"].name if "model" in host.spec.files else host.spec.name,
            "chat_template": (await asyncio.to_thread(facts, host.spec)).template,
            "modalities": {"vision": INFO[host.spec.job].pictures, "audio": False},
            "build_info": f"edgeserve-{edgeserve.__version__}",
            "is_sleeping": rung is not Rung.HOT,
        }
    )
