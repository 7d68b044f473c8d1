"""Further ports of the server, for protocols that are not HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from starlette.datastructures import State
from uvicorn.server import ServerState

from edgeserve.config import Config


class Port(Protocol):
    """A bound port."""

    async def open(self, state: ServerState, shared: Mapping[str, Any]) -> asyncio.Server:
        """Accept connections. ``shared``: the arguments that connections of all protocols share. Raises OSError."""
        ...

    async def close(self) -> None:
        """The port accepts no more connections. Idempotent."""
        ...


@contextlib.contextmanager
def further(config: Config, state: State, *, insecure: bool) -> Iterator[list[Port]]:
    """The ports that the settings name, bound. Nothing of a protocol without a port is imported.

    ``state``: the application's. Raises ConfigError for a port that cannot be had, and for one that needs ``insecure``.
    """
    if not config.server.wyoming:
        yield []
        return
    from edgeserve.wyoming import WyomingPort, bind

    with contextlib.closing(bind(config, insecure=insecure)) as listener:
        yield [WyomingPort(listener, state, config.server.live_idle_seconds)]
