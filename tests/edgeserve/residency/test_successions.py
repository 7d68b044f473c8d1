"""Requests that wait for the engine that takes the place of another one."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from edgeserve import clients
from edgeserve.clients import Client
from edgeserve.errors import Busy, ShuttingDown
from edgeserve.residency.successions import Successions


async def started(*works: object) -> list[asyncio.Task[None]]:
    tasks = [asyncio.ensure_future(work) for work in works]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    return tasks  # type: ignore[return-value]


def test_nobody_waits_where_nothing_is_replaced() -> None:
    asyncio.run(Successions().over("llm"))


def test_all_wait_for_the_end_of_a_replacement_and_for_no_other() -> None:
    async def scene() -> None:
        one = Successions()
        with one.under_way("llm"):
            assert "llm" in one
            waiting = await started(one.over("llm"), one.over("llm"))
            await one.over("asr")
            assert not any(task.done() for task in waiting)
        await asyncio.gather(*waiting)
        assert "llm" not in one

    asyncio.run(scene())


def test_one_that_is_replaced_again_meanwhile_is_waited_for_again() -> None:
    async def scene() -> None:
        one = Successions()
        with one.under_way("llm"):
            (waiting,) = await started(one.over("llm"))
        with one.under_way("llm"):
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting

    asyncio.run(scene())


def test_more_than_the_most_are_refused_and_one_that_leaves_makes_room() -> None:
    async def scene() -> None:
        one = Successions(most=1)
        with one.under_way("llm"):
            (waiting,) = await started(one.over("llm"))
            with pytest.raises(Busy, match="1 requests wait for it already"):
                await one.over("llm")
            waiting.cancel()
            await asyncio.wait([waiting])
            (another,) = await started(one.over("llm"))
        await another

    asyncio.run(scene())


def asked_by(client: str, one: Successions) -> asyncio.Task[None]:
    context = contextvars.copy_context()
    context.run(clients.current.set, Client(key=client))
    return asyncio.get_running_loop().create_task(one.over("llm"), context=context)


def test_a_client_with_many_waits_gives_places_to_one_with_fewer() -> None:
    async def scene() -> None:
        one = Successions(most=4)
        with one.under_way("llm"):
            greedy = [asked_by("greedy", one) for _ in range(4)]
            await asyncio.sleep(0)
            others = [asked_by("other", one) for _ in range(3)]
            for _ in range(3):  # a refusal reaches its task two turns later
                await asyncio.sleep(0)
            assert [task.done() for task in (*greedy, *others)] == [False, False, True, True, False, False, True]
            for refused in (*greedy[2:], others[2]):
                with pytest.raises(Busy, match="4 requests wait for it already"):
                    refused.result()
        await asyncio.gather(*greedy[:2], *others[:2])

    asyncio.run(scene())


def test_the_end_of_the_server_ends_all_waits() -> None:
    async def scene() -> None:
        one = Successions()
        with one.under_way("llm"):
            (waiting,) = await started(one.over("llm"))
            one.close()
            with pytest.raises(ShuttingDown):
                await waiting
            with pytest.raises(ShuttingDown):
                await one.over("llm")
        assert one.closed

    asyncio.run(scene())
