"""The limit on the memory of all bodies together."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from starlette.requests import Request
from support.cases import each

from edgeserve.api.bodies import LARGEST_AT_ONCE, SHARE, Body
from edgeserve.api.limits import BodyLimit, max_body, max_pixels
from edgeserve.errors import Busy, TooLarge
from edgeserve.memory.traffic import Traffic, own
from edgeserve.residency import wakes
from edgeserve.units import GB, MB

LIMIT = 100


class Reader:
    """An application that reads its body, then holds it until told."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.read = asyncio.Semaphore(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive).body()
        self.read.release()
        await self.done.wait()


async def send_body(app: BodyLimit, *chunks: int) -> None:
    parts = [{"type": "http.request", "body": bytes(size), "more_body": True} for size in chunks]
    parts.append({"type": "http.request", "body": b""})

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None: ...

    await app({"type": "http", "headers": []}, receive, send)


def test_bodies_that_are_large_together_are_refused_until_some_are_done() -> None:
    async def run() -> None:
        reader = Reader()
        app = BodyLimit(reader, LIMIT)
        held = [asyncio.create_task(send_body(app, LIMIT)) for _ in range(SHARE)]
        for _ in held:
            await reader.read.acquire()
        with pytest.raises(Busy, match="try again when some are done") as refused:
            await send_body(app, 1)
        assert refused.value.retry_after
        reader.done.set()
        await asyncio.gather(*held)
        await send_body(app, LIMIT)

    asyncio.run(run())


def test_the_threads_that_serve_a_request_know_the_bytes_of_its_own_body() -> None:
    async def run() -> None:
        found: list[int] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            work = contextvars.copy_context()  # as of a work in the queue of its gate
            await Request(scope, receive).body()
            found.append(await asyncio.to_thread(work.run, lambda: own.get().held))

        await asyncio.gather(*(send_body(BodyLimit(app, LIMIT), size, 7) for size in (0, 30, 90)))
        assert sorted(found) == [7, 37, 97]
        assert own.get().held == 0

    asyncio.run(run())


def test_work_that_outlives_its_request_has_no_body() -> None:
    """A live session goes on listening after the push that began it, whose bytes leave no room to others any more."""

    async def run() -> None:
        works: list[contextvars.Context] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await Request(scope, receive).body()
            works.append(contextvars.copy_context())
            assert works[0].run(lambda: own.get().held) == 30

        await send_body(BodyLimit(app, LIMIT), 30)
        assert works[0].run(lambda: own.get().held) == 0

    asyncio.run(run())


def test_a_refused_body_does_not_count_any_more() -> None:
    async def run() -> None:
        reader = Reader()
        reader.done.set()
        app = BodyLimit(reader, LIMIT)
        for _ in range(2 * LARGEST_AT_ONCE):
            with pytest.raises(TooLarge):
                await send_body(app, LIMIT, 1)
        await send_body(app, LIMIT)

    asyncio.run(run())


@each(("megabytes", "largest"), [(16, 1), (250, 7), (512, 16), (1000, 31), (1024, 32), (24_000, 32)])
def test_a_small_machine_takes_smaller_bodies(megabytes: int, largest: int) -> None:
    """Four uploads of 30 MB took 240 MB, and the kernel ended a server that had 250."""
    assert max_body(megabytes * MB) == largest * MB


@each(("gigabytes", "millions"), [(1, 4), (3.79, 15), (4, 16), (8, 20), (64, 20)])
def test_a_small_machine_takes_smaller_pictures(gigabytes: float, millions: int) -> None:
    """A decoder takes 8 bytes a pixel, and several may be at work."""
    assert max_pixels(int(gigabytes * GB)) // 1_000_000 == millions


def test_a_slow_body_ends_as_another_thread_asks_for_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Body, "slow", True)
    traffic, came, ended = Traffic(), threading.Event(), threading.Event()

    async def receive() -> Any:
        if came.is_set():
            await asyncio.Event().wait()
        came.set()
        return {"type": "http.request", "body": bytes(LIMIT), "more_body": True}

    async def send(message: Any) -> None: ...

    def ask() -> None:
        assert came.wait(10)
        with wakes.held():  # as where an engine's thread waits for memory
            traffic.ease(LIMIT)
            assert ended.wait(10)

    async def run() -> None:
        app = BodyLimit(Reader(), LIMIT, traffic=traffic)
        traffic.ease(LIMIT)  # before the first request there is nothing to ask
        async with asyncio.timeout(10):
            sent = asyncio.create_task(app({"type": "http", "headers": []}, receive, send))
            asked = asyncio.ensure_future(asyncio.to_thread(ask))
            with pytest.raises(Busy, match="a request has waited for the memory of bodies"):
                await sent
            ended.set()
            await asked

    asyncio.run(run())
    assert traffic.held == 0
