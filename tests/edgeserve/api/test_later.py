from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import pytest

from edgeserve.api.later import at, later


async def double(value: int) -> int:
    return 2 * value


def test_a_function_is_made_once_and_with_the_first_call() -> None:
    made: list[str] = []

    def make() -> Callable[[int], Awaitable[int]]:
        made.append("made")
        return double

    wanted = later(make)
    assert made == []

    async def many() -> list[int]:
        return await asyncio.gather(*(wanted(number) for number in range(100)))

    assert asyncio.run(many()) == [2 * number for number in range(100)]
    assert asyncio.run(wanted(4)) == 8
    assert made == ["made"]


def test_the_event_loop_goes_on_while_a_function_is_made() -> None:
    loop_went_on = []

    async def slow() -> None:
        running, served = asyncio.get_running_loop(), asyncio.Event()

        def make() -> Callable[[int], Awaitable[int]]:
            asyncio.run_coroutine_threadsafe(_set(served), running).result(30)  # only a loop that goes on does it
            loop_went_on.append(served.is_set())
            return double

        assert await later(make)(1) == 2

    asyncio.run(slow())
    assert loop_went_on == [True]


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_a_failure_of_making_is_raised_and_the_next_call_tries_again() -> None:
    tries = iter([OSError("no file could be opened"), None])

    def make() -> Callable[[int], Awaitable[int]]:
        if (error := next(tries)) is not None:
            raise error
        return double

    wanted = later(make)
    with pytest.raises(OSError, match="no file could be opened"):
        asyncio.run(wanted(1))
    assert asyncio.run(wanted(1)) == 2


def test_a_caller_that_leaves_does_not_take_the_function_along() -> None:
    async def leave() -> int:
        begun, go_on = asyncio.Event(), asyncio.Event()
        running = asyncio.get_running_loop()

        def make() -> Callable[[int], Awaitable[int]]:
            running.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), running).result(30)
            return double

        wanted = later(make)
        first = asyncio.ensure_future(wanted(1))
        await begun.wait()
        first.cancel()
        second = asyncio.ensure_future(wanted(2))
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert asyncio.run(leave()) == 4


def test_a_room_is_imported_with_the_first_call() -> None:
    room = "edgeserve.api.openai.moderations"
    sys.modules.pop(room, None)
    refuse: Callable[[object], Awaitable[object]] = at(f"{room}:refuse")
    assert room not in sys.modules
    with pytest.raises(AttributeError, match="url"):  # of an object that is no request: the function ran
        asyncio.run(refuse(object()))
    assert room in sys.modules
