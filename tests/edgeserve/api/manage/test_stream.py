"""Streams of events end when their clients go, whatever news comes in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any

import pytest
from support.gates import PATIENCE_SECONDS

from edgeserve.api.manage.stream import EventStream, Woken

SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}


@pytest.mark.parametrize("steps", range(-3, 4))
def test_a_stream_ends_whose_client_goes_as_news_comes(steps: int) -> None:
    """The news swallowed the end, and the stream went on without a client. ``steps``: of the loop, news to end."""

    async def run() -> None:
        woken, gone, waits, ended = Woken(), asyncio.Event(), asyncio.Event(), list[bool]()

        async def parts() -> AsyncGenerator[bytes, None]:
            while True:
                yield b"news"
                waits.set()
                await woken.wait()

        body = [{"type": "http.request"}]

        async def receive() -> MutableMapping[str, Any]:
            if body:
                return body.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            """To a client that may have gone, which the server does not tell."""

        stream = EventStream(parts(), lambda: ended.append(True))
        task = asyncio.create_task(stream(SCOPE, receive, send))
        await asyncio.wait_for(waits.wait(), PATIENCE_SECONDS)
        await asyncio.sleep(0)  # the wait for news has begun
        first, second = (woken._event.set, gone.set) if steps >= 0 else (gone.set, woken._event.set)
        first()
        for _ in range(abs(steps)):
            await asyncio.sleep(0)
        second()
        await asyncio.wait([task], timeout=PATIENCE_SECONDS)
        assert (task.done(), ended) == (True, [True])

    asyncio.run(run())
