"""Turns for events: few in one turn of the event loop, clients in rounds."""

from __future__ import annotations

import asyncio
from collections import Counter

from edgeserve.protocols.rota import AT_ONCE, Rota


async def ask(rota: Rota, client: str, done: list[str]) -> None:
    while True:
        await rota.turn(client)
        done.append(client)


def test_one_turn_of_the_loop_works_on_few_events_and_clients_go_round() -> None:
    """One event of each of 200 connections of one client came first."""

    async def run() -> None:
        rota, done = Rota(), list[str]()
        tasks = [asyncio.create_task(ask(rota, "many", done)) for _ in range(200)]
        for _ in range(3):
            await asyncio.sleep(0)
        tasks.append(asyncio.create_task(ask(rota, "one", done)))
        rounds = []
        for _ in range(50):
            before = len(done)
            await asyncio.sleep(0)
            rounds.append(len(done) - before)
        assert max(rounds) <= AT_ONCE
        counts = Counter(done[-40:])
        assert counts["one"] == counts["many"] == 20
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def test_a_connection_that_is_lost_takes_no_turn() -> None:
    async def run() -> None:
        rota, done = Rota(), list[str]()
        tasks = [asyncio.create_task(ask(rota, client, done)) for client in ("a", "a", "a", "b", "c")]
        for _ in range(4):
            await asyncio.sleep(0)
        for task in tasks[:4]:
            task.cancel()
        done.clear()
        for _ in range(40):
            await asyncio.sleep(0)
        assert done.count("c") > 10
        assert done[-9:] == ["c"] * 9
        tasks[4].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def test_a_turn_passes_the_loop_on_also_where_nobody_else_waits() -> None:
    async def run() -> None:
        rota, turns, ended = Rota(), 0, list[int]()

        async def alone() -> None:
            for _ in range(10):
                await rota.turn("a")

        task = asyncio.create_task(alone())
        task.add_done_callback(lambda _: ended.append(turns))
        for _ in range(40):
            await asyncio.sleep(0)
            turns += 1
        assert 10 <= ended[0] <= 30

    asyncio.run(run())
