"""Clients share an engine fairly, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from support.gates import BATCHING_FAKES, Held, engine_of
from support.server import build, fake_pool, until

from edgeserve.messages import Request
from edgeserve.residency.pool import Pool

ADA, BOB = "192.0.2.1", "192.0.2.2"


class Server:
    """The application, asked from any address. ``order``: the texts of the requests as their answers began."""

    def __init__(self, **settings: Any) -> None:
        self.pool = fake_pool(["llm"], **settings.pop("pool", {}))
        self.app = build(self.pool, **settings)
        self.order: list[str] = []
        self.pool.ahead.begun = self._begun  # type: ignore[method-assign]
        self.held = Held(engine_of(self.pool.gates["llm"]))

    def _begun(self, request: Request) -> None:
        self.order.append(request.messages[-1].text)  # type: ignore[union-attr]

    async def ask(self, address: str, text: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        headers = {"Authorization": f"Bearer {more.pop('key')}"} if "key" in more else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            body = {"messages": [{"role": "user", "content": text}], **more}
            return await client.post("/v1/chat/completions", json=body, headers=headers, timeout=30)

    async def until(self, true: Callable[[Pool], bool]) -> None:
        await asyncio.to_thread(until, lambda: true(self.pool))

    def go(self) -> None:
        self.held.go.set()


@contextlib.asynccontextmanager
async def server(**settings: Any) -> AsyncIterator[Server]:
    made = Server(**settings)
    try:
        yield made
    finally:
        made.go()
        await made.pool.stop()


def leases(count: int) -> Callable[[Pool], bool]:
    return lambda pool: pool.gates["llm"].leases == count


@pytest.mark.slow
def test_fifty_requests_of_one_client_delay_another_by_one_answer_at_most() -> None:
    async def run() -> None:
        async with server(pool={"queue_limit": 60}) as one:
            adas = [asyncio.create_task(one.ask(ADA, f"ada {number}")) for number in range(50)]
            await one.until(leases(50))
            bob = asyncio.create_task(one.ask(BOB, "bob"))
            await one.until(leases(51))
            one.go()
            assert (await bob).json()["choices"][0]["message"]["content"] == "bob"
            assert {(await ada).status_code for ada in adas} == {200}
            assert one.order.index("bob") == 1, "after the answer that ran already"

    asyncio.run(run())


def test_further_answers_of_one_request_wait_as_further_requests_do() -> None:
    async def run() -> None:
        async with server(pool={"fakes": BATCHING_FAKES, "slots": 2}) as one:
            ada = asyncio.create_task(one.ask(ADA, "ada", n=8))
            await one.until(leases(1))
            bob = asyncio.create_task(one.ask(BOB, "bob"))
            await one.until(leases(2))
            one.go()
            assert (await bob).status_code == 200
            assert len((await ada).json()["choices"]) == 8
            assert one.order.index("bob") <= 2

    asyncio.run(run())


def test_a_client_that_takes_all_places_gives_them_up_and_is_told_to_come_back() -> None:
    async def run() -> None:
        async with server(pool={"queue_limit": 4}) as one:
            adas = [asyncio.create_task(one.ask(ADA, f"ada {number}")) for number in range(5)]
            await one.until(leases(5))
            full = await one.ask(ADA, "ada 5")
            assert full.status_code == 503
            assert "by you" not in full.json()["error"]["message"]
            bob = asyncio.create_task(one.ask(BOB, "bob"))
            (gone,), waiting = await asyncio.wait(adas, return_when=asyncio.FIRST_COMPLETED)
            displaced = gone.result()
            assert displaced.status_code == 503
            assert int(displaced.headers["Retry-After"]) >= 1
            assert "5 of both by you, and a client with fewer took this one" in displaced.json()["error"]["message"]
            one.go()
            assert {(await answer).status_code for answer in [*waiting, bob]} == {200}
            assert one.order[1] == "bob"

    asyncio.run(run())


def test_who_shares_a_key_is_told_apart_by_the_address() -> None:
    async def run() -> None:
        async with server(pool={"queue_limit": 8}, api_key="sesame") as one:
            adas = [asyncio.create_task(one.ask(ADA, f"ada {number}", key="sesame")) for number in range(5)]
            await one.until(leases(5))
            bob = asyncio.create_task(one.ask(BOB, "bob", key="sesame"))
            await one.until(leases(6))
            one.go()
            assert {(await answer).status_code for answer in [*adas, bob]} == {200}
            assert one.order[1] == "bob"

    asyncio.run(run())
