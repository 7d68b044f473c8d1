"""Watches whether the client of a request is still there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.types import Receive


@contextlib.asynccontextmanager
async def watching(receive: Receive, gone: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Await ``gone`` as soon as the client has gone. The body must have been read."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await gone()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher
