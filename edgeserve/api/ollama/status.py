"""The routes by which clients recognise an Ollama server."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

VERSION = "0.13.5"
"""The version of Ollama whose API this dialect follows. Clients ask for at least some version, Codex for 0.13.4."""
RUNNING = "Ollama is running"
"""Ollama's answer at its root. Probes look for this text."""


async def version(request: Request) -> Response:
    return JSONResponse({"version": VERSION})


async def status(request: Request) -> Response:
    """The state of Ollama's cloud, which this server has none of."""
    return JSONResponse({"cloud": {"disabled": True, "source": "server"}})
