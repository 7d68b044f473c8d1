"""GET /admin/recommend: the advice of ``edgeserve recommend``, for the machine that the server runs on."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api.manage.models import manager_of
from edgeserve.api.presence import unless_gone
from edgeserve.fit.choice import Box
from edgeserve.fit.recommend import advise, calibrated
from edgeserve.manage.manager import Manager
from edgeserve.residency.aside import Aside
from edgeserve.residency.pool import Pool

WORK = Aside("advice on models", threads=1, most=8)
"""One thread: the first advice measures the machine for some seconds, and each one lays out the stored models."""


async def recommend(request: Request) -> Response:
    """The models of the catalogue that suit this machine. Raises EngineFailure where it cannot be measured."""
    pool: Pool = request.app.state.pool
    return JSONResponse(await unless_gone(request, WORK.run(_advice, manager_of(request), pool)))


def _advice(manager: Manager, pool: Pool) -> dict[str, Any]:
    box = Box(pool.governor.probe.read(), manager.config.memory)
    return advise(manager.store, box, calibrated(manager.store)).as_json()
