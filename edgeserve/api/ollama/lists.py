"""The lists of models: installed ones, those in memory, and one in full."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import models
from edgeserve.api.ollama import details, names
from edgeserve.api.ollama.request import Named, read
from edgeserve.api.ollama.times import FAR, written
from edgeserve.api.values import Flag
from edgeserve.engine import ModelSpec, Rung
from edgeserve.jobs import CHAT, Job
from edgeserve.models.stored import StoredModel
from edgeserve.residency.gate import Gate
from edgeserve.residency.monitor import IdlePolicy
from edgeserve.residency.pool import Pool

JOBS: tuple[Job, ...] = (*CHAT, "embedding")
"""Jobs of the models that are listed: those that a request of this dialect may name."""
COPILOT = "githubcopilot"
"""Part of the User-Agent of VS Code's Copilot Chat, which shows ``general.basename`` as the name."""
SHOWN_OPTIONS = {"context": "num_ctx", "max_new_tokens": "num_predict"}
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repeat_penalty")


class Shown(Named):
    """The body of POST /api/show."""

    verbose = Flag("accepted; lists of tokens and tensors are left out")


async def tags(request: Request) -> Response:
    """The models, the default first; with ``serve = "stored"`` the pulled ones, too."""
    pool: Pool = request.app.state.pool
    shelved = await models.shelved(request)
    return JSONResponse({"models": await details.LOOKS.run(_listed, pool.directory.of(JOBS), shelved)})


def _listed(served: Sequence[ModelSpec], shelved: Sequence[StoredModel]) -> list[dict[str, Any]]:
    found = [details.described(spec) for spec in served]
    found += [details.described(spec, one.name, spec.name) for spec in served for one in spec.adapters if one.name]
    listed = {one["name"].lower(): one for one in reversed(found)}
    listed = dict(reversed(listed.items()))
    for one in shelved:
        if one.job in JOBS and names.shown(one.name).lower() not in listed:
            spec = ModelSpec(one.job, one.name, one.engine, one.files, options=one.options)
            listed[names.shown(one.name).lower()] = details.described(spec)
    return list(listed.values())


async def ps(request: Request) -> Response:
    """The engines that hold their memory, of all jobs, the longest to stay first."""
    pool: Pool = request.app.state.pool
    policy: IdlePolicy = request.app.state.monitor.policy
    hot = [gate for gate in pool.gates.values() if gate.rung is Rung.HOT]
    hot.sort(key=lambda gate: remaining(gate, policy), reverse=True)
    return JSONResponse({"models": await details.LOOKS.run(_resident, hot, policy)})


def _resident(hot: Sequence[Gate], policy: IdlePolicy) -> list[dict[str, Any]]:
    return [_row(gate, remaining(gate, policy)) for gate in hot]


def _row(gate: Gate, left: float) -> dict[str, Any]:
    found, held = details.described(gate.spec), gate.footprint()
    context = gate.context_tokens
    return {
        **{name: found[name] for name in ("name", "model", "digest", "details")},
        "size": held.total,
        "size_vram": held.device,
        "expires_at": FAR if math.isinf(left) else written(time.time() + left),
        **({"context_length": context} if context else {}),
    }


def remaining(gate: Gate, policy: IdlePolicy, now: float | None = None) -> float:
    """Seconds until an idle model gives its memory back, if nobody asks; infinite for one that stays."""
    if gate.pinned:
        return math.inf
    seconds = min(policy.warm_after, policy.idle_timeout) if gate.keep_alive is None else gate.keep_alive
    if gate.leases:
        return seconds
    return max(0.0, gate.last_used + seconds - (time.monotonic() if now is None else now))


async def show(request: Request) -> Response:
    """One model in full. Raises ModelNotFound."""
    asked = await read(request, Shown)
    pool: Pool = request.app.state.pool
    spec = pool.gates[names.choose(pool, asked.wanted, JOBS, stand_in=False)].spec
    copilot = COPILOT in request.headers.get("user-agent", "").lower()
    return JSONResponse(await details.LOOKS.run(_full, spec, asked.wanted if copilot else ""))


def _full(spec: ModelSpec, basename: str) -> dict[str, Any]:
    facts, licence, system = details.facts(spec), details.licence(spec), spec.options.get("system")
    return {
        **({"license": licence} if licence else {}),
        "modelfile": f"# edgeserve: this model is configured in models.toml\nFROM {names.shown(spec.name)}\n",
        "parameters": "\n".join(_parameters(spec)),
        "template": facts.template,
        **({"system": system} if system else {}),
        "details": details.details(spec),
        "messages": [],
        "model_info": details.info(spec) | ({"general.basename": basename} if basename else {}),
        "capabilities": details.capabilities(spec),
        "modified_at": details.modified(spec),
    }


def _parameters(spec: ModelSpec) -> list[str]:
    """The model's own settings, a line each, under Ollama's names."""
    known = {**SHOWN_OPTIONS, **{name: name for name in SAMPLING}}
    return [f"{known[name]:<30} {value}" for name, value in spec.options.items() if name in known]
