"""The state of the server's peers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import later


async def status(request: Request) -> Response:
    view = await later.IMPORTS.run(getattr, request.app.state, "cluster")  # the first request makes it
    return JSONResponse(await view.look())
