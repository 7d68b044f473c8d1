"""Turns: one at a time for each client and few in all, urgent ones first, and none is lost when a waiter leaves."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars

import pytest

from edgeserve import clients
from edgeserve.clients import Client
from edgeserve.live.turns import AT_ONCE, HEAD_START, Turns


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


def test_no_client_waits_for_another_however_many_sessions_that_one_has() -> None:
    async def run() -> None:
        turns, order = Turns(), list[str]()
        visits = [Visit(turns, name, order, client="192.0.2.1") for name in ("a1", "a2", "a3")]
        await settle()
        visits += [Visit(turns, name, order, client="192.0.2.2") for name in ("b1", "b2")]
        await settle()
        assert order == ["a1", "b1"]
        visits[3].leave.set()
        await settle()
        assert order == ["a1", "b1", "b2"]
        for visit in visits:
            visit.leave.set()
        await asyncio.gather(*(visit.task for visit in visits))
        assert order == ["a1", "b1", "b2", "a2", "a3"]
        assert (turns._latest, turns._under_way, turns._waiting) == ({}, set(), [])

    asyncio.run(run())


def test_few_clients_have_a_turn_at_a_time_and_each_has_one_in_its_round() -> None:
    """Each turn is a request in the engine's queue, where others have room, too."""

    async def run() -> None:
        turns, order = Turns(), list[str]()
        visits = [
            Visit(turns, f"{number}{session}", order, client=f"192.0.2.{number}")
            for number in range(2 * AT_ONCE)
            for session in "abc"
        ]
        await settle()
        assert order == [f"{number}a" for number in range(AT_ONCE)]
        for visit in visits:
            visit.leave.set()
        await asyncio.gather(*(visit.task for visit in visits))
        rounds = [order[at : at + 2 * AT_ONCE] for at in range(0, len(order), 2 * AT_ONCE)]
        assert [sorted(one) for one in rounds] == [[f"{number}{of}" for number in range(2 * AT_ONCE)] for of in "abc"]

    asyncio.run(run())


def test_urgent_ones_without_end_hold_nobody_up_for_long() -> None:
    async def run() -> None:
        turns, order = Turns(), list[str]()
        others = [Visit(turns, "other", [], client=f"192.0.2.{number}") for number in range(AT_ONCE - 1)]
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
        for visit in (bob, running, *others):
            visit.leave.set()
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
