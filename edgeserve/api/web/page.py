"""The routes of the web page. Its files are read with the first request for one of them."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from edgeserve.api.web import files


async def page(request: Request) -> Response:
    return (await asyncio.to_thread(files.read)).page(request)


async def file(request: Request) -> Response:
    """Raises HTTPException with 404 for a path that no file of the page has."""
    found = (await asyncio.to_thread(files.read)).file(request)
    if found is None:
        raise HTTPException(404)
    return found
