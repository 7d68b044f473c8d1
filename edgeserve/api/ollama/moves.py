"""Loading and unloading: requests without a prompt."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from edgeserve.api.ollama import names
from edgeserve.api.ollama.answer import Answered
from edgeserve.api.ollama.times import now
from edgeserve.api.presence import unless_gone
from edgeserve.engine import Rung
from edgeserve.jobs import CHAT, Job
from edgeserve.residency.pool import Pool

JOBS: tuple[Job, ...] = (*CHAT, "embedding")
"""Jobs whose models such a request may name."""


async def loaded_or_unloaded(request: Request, asked: Answered) -> dict[str, Any]:
    """Load the model, or unload it where ``keep_alive`` is 0; the answer without the dialect's own field.

    As after any request with ``keep_alive`` 0, the weights stay mapped and a pinned model stays. A model that answers
    others, or that another client wants to stay, is unloaded after them.

    Raises ModelNotFound, Busy and the errors of a load.
    """
    pool: Pool = request.app.state.pool
    unload = asked.keep_alive == 0
    model = names.choose(pool, asked.model, JOBS, stand_in=not unload)
    stays = pool.directory.terms(model).pinned or pool.wanted_by_others(model)
    if not unload or stays or not await pool.evict(model, Rung.WARM):
        lease = await pool.lease(model, asked.keep_alive)  # its end begins the time of keep_alive
        try:
            if not unload:
                await unless_gone(request, pool.preload([model]))
        finally:
            await lease.release()
    return {
        "model": asked.named(pool, model),
        "created_at": now(),
        "done": True,
        "done_reason": "unload" if unload else "load",
    }
