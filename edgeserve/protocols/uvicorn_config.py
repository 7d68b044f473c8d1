"""Uvicorn's settings: the protocols of a connection, and all that Uvicorn would do by itself and must not."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.config import Config

from edgeserve.connections import ACCEPTED_AT_ONCE
from edgeserve.live.window import FRAME_BYTES, MAX_PUSH_BYTES
from edgeserve.protocols.http import HttpConnection

if TYPE_CHECKING:
    from edgeserve.tls.certificate import Certificate

# Uvicorn's lifespan asks the package for it. The package would import its command line, and 1.6 MB with it.
uvicorn.Config = Config  # type: ignore[misc]


def uvicorn_config(
    application: ASGIApp, shared: Mapping[str, Any], certificate: Certificate | None, end_seconds: int
) -> Config:
    """``shared``: arguments of all connections. ``end_seconds``: time that answers under way have at the end."""
    http: Callable[..., asyncio.BaseProtocol] = functools.partial(HttpConnection, **shared)
    if certificate is not None:
        from edgeserve.protocols.tls import TlsDoor

        http = functools.partial(TlsDoor, certificate, HttpConnection, **shared)
    return Config(
        application,
        loop="asyncio",
        http=http,  # type: ignore[arg-type]  # it makes the protocol
        ws=functools.partial(websocket, **shared),  # type: ignore[arg-type]
        ws_max_size=MAX_PUSH_BYTES + FRAME_BYTES,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client could forge its address in X-Forwarded-For
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=end_seconds,
    )


def websocket(**connection: Any) -> asyncio.Protocol:
    """Make the WebSocket protocol of a connection. Its library is imported for the first WebSocket only."""
    from edgeserve.protocols.websocket import SocketConnection

    return SocketConnection(**connection)
