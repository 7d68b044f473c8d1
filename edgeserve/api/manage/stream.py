"""A stream of events that ends when its client has gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgeserve.api import sse
from edgeserve.api.json_body import read_bytes
from edgeserve.api.line import STREAM_HEADERS
from edgeserve.api.presence import unless_gone
from edgeserve.errors import Cancelled

BEAT_SECONDS = 10.0
"""Time without news after which a stream repeats its last state: a client then knows that the server is there."""
MAX_BODY = 64 << 10
"""Bytes of a body that a GET may have, although it asks for nothing."""


class Woken:
    """Wakes a coroutine from any thread. Several calls before it wakes count as one, so nothing queues up."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for a call, at most ``seconds`` (``BEAT_SECONDS``); False when none came."""
        try:
            # wait_for would lose a cancellation that comes with the news.
            async with asyncio.timeout(BEAT_SECONDS if seconds is None else seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class EventStream(Response):
    """Sends each part as it comes. ``ended`` is called once: after the last part, and when the client has gone."""

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None],
        ended: Callable[[], None] = lambda: None,
        media_type: str = sse.MEDIA_TYPE,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(STREAM_HEADERS)
        del self.headers["content-length"]
        self._parts, self._ended = parts, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "HEAD":  # its client takes the head for the whole answer, and would wait behind it
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b""})
                return
            request = Request(scope, receive)
            if scope["method"] == "GET":  # its endpoint reads no body, whose error would end the watch over the client
                await read_bytes(request, MAX_BODY, "a stream of events takes no body")
            await unless_gone(request, self._write(send))
        except Cancelled:
            return  # the client has gone
        finally:
            self._ended()
            await self._parts.aclose()

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
