"""Turns: one at a time, urgent ones first, and none is lost when a waiter leaves."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars

import pytest

from edgeserve import clients
from edgeserve.clients import Client
from edgeserve.live.turns import HEAD_START, Turns


class Visit:
    """A waiter that notes its name when its turn comes, and keeps the turn until told to leave."""

    def __init__(self, turns: Turns, name: str, order: list[str], urgent: bool = False, client: str = "") -> None:
        self.urgent = urgent
        self.leave = asyncio.Event()
        self._name, self._order = name, order
        context = contextvars.copy_context()
        context.run(clients.current.set, Client(address=client))
        self.task = asyncio.get_running_loop().create_task(self._run(turns), context=context)

    async def _run(self, turns: Turns) -> None:
        async with turns.turn(lambda: self.urgent):
            self._order.append(self._name)
            await self.leave.wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_the_urgent_go_first_and_others_in_the_order_they_came() -> None:
    async def run() -> None:
        turns, order = Turns(), list[str]()
        visits = [Visit(turns, name, order) for name in "abcde"]
        await settle()
        assert order == ["a"]
        visits[3].urgent = True  # not when it came, but now
        for visit in visits:
            visit.leave.set()
        await asyncio.gather(*(visit.task for visit in visits))
        assert order == ["a", "d", "b", "c", "e"]

    asyncio.run(run())


def test_clients_take_turns_however_many_sessions_one_of_them_has() -> None:
    async def run() -> None:
        turns, order = Turns(), list[str]()
        visits = [Visit(turns, name, order, client="ada") for name in ("a1", "a2", "a3", "a4")]
        await settle()
        visits += [Visit(turns, name, order, client="bob") for name in ("b1", "b2")]
        await settle()
        for visit in visits:
            visit.leave.set()
        await asyncio.gather(*(visit.task for visit in visits))
        assert order == ["a1", "b1", "a2", "b2", "a3", "a4"]

    asyncio.run(run())


def test_urgent_ones_without_end_hold_nobody_up_for_long() -> None:
    async def run() -> None:
        turns, order = Turns(), list[str]()
        running = Visit(turns, "ada", order, urgent=True, client="ada")
        await settle()
        bob = Visit(turns, "bob", order, client="bob")
        await settle()
        for _ in range(20):
            following = Visit(turns, "ada", order, urgent=True, client="ada")
            await settle()
            running.leave.set()
            await settle()
            running = following
        bob.leave.set()
        running.leave.set()
        await bob.task
        assert HEAD_START // 2 <= order.index("bob") <= HEAD_START + 1

    asyncio.run(run())


@pytest.mark.parametrize("called", [False, True])
def test_a_turn_of_one_who_leaves_is_passed_on(called: bool) -> None:
    async def run() -> None:
        turns, order = Turns(), list[str]()
        async with turns.turn(lambda: False):
            gone, last = (Visit(turns, name, order) for name in ("gone", "last"))
            await settle()
            if not called:
                gone.task.cancel()
        gone.task.cancel()  # has been given the turn, and has not run since
        with contextlib.suppress(asyncio.CancelledError):
            await gone.task
        last.leave.set()
        async with asyncio.timeout(5):
            await last.task
            async with turns.turn(lambda: False):
                assert order == ["last"]

    asyncio.run(run())


def test_a_failure_ends_a_turn() -> None:
    async def run() -> None:
        turns = Turns()
        with pytest.raises(ValueError, match="as arranged"):
            async with turns.turn(lambda: False):
                raise ValueError("as arranged")
        async with asyncio.timeout(5), turns.turn(lambda: False):
            pass

    asyncio.run(run())
