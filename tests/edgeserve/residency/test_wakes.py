"""Wake-ups of the event loop: one for all events of a round, and none is late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from edgeserve.hosts.runs import Runs
from edgeserve.messages import TextRequest, TokenEvent
from edgeserve.residency import wakes
from edgeserve.residency.mailbox import Deliveries, Mailbox


class CountingLoop:
    """Does what it is asked at once, and counts."""

    def __init__(self) -> None:
        self.asked = 0

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any) -> None:
        self.asked += 1
        callback(*args)


def test_a_round_wakes_each_loop_once_in_the_order_of_its_calls() -> None:
    one, other, done = CountingLoop(), CountingLoop(), list[str]()
    with wakes.held():
        for name, loop in (("a", one), ("b", other), ("c", one)):
            wakes.wake(loop, lambda name=name: done.append(name))  # type: ignore[misc]
        assert done == []
    assert done == ["a", "c", "b"]
    assert (one.asked, other.asked) == (1, 1)


def test_outside_a_round_and_after_a_flush_nothing_waits() -> None:
    loop, done = CountingLoop(), list[str]()
    wakes.wake(loop, lambda: done.append("before"))
    assert done == ["before"]
    with wakes.held():
        wakes.wake(loop, lambda: done.append("held"))
        wakes.flush()
        assert done[-1] == "held"
    wakes.wake(loop, lambda: done.append("after"))
    assert done == ["before", "held", "after"]
    assert loop.asked == 3


def test_a_round_that_fails_wakes_its_readers() -> None:
    loop, done = CountingLoop(), list[str]()

    def fail() -> None:
        with wakes.held():
            wakes.wake(loop, lambda: done.append("held"))
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert done == ["held"]


def test_a_closed_loop_is_passed_over() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    wakes.wake(loop, lambda: None)


def test_a_mailbox_takes_part_while_its_reader_waits() -> None:
    async def test() -> None:
        box, loop = Mailbox(Deliveries()), CountingLoop()
        box._loop = loop  # type: ignore[assignment]
        first = asyncio.create_task(box.get())
        await asyncio.sleep(0)  # it waits
        with wakes.held():
            for number in range(3):
                box.put(number, TokenEvent("x"))
            assert loop.asked == 0
        box.put(3, TokenEvent("x"))
        assert loop.asked == 1, "a reader that is behind finds the others without a call"
        assert [(await one)[0] for one in (first, box.get(), box.get(), box.get())] == [0, 1, 2, 3]

    asyncio.run(test())


def test_a_new_answer_delays_no_event_of_others() -> None:
    """It may copy a conversation before its first event."""
    loop, done = CountingLoop(), list[str]()
    seen: list[list[str]] = []

    def old() -> Any:
        while True:
            wakes.wake(loop, lambda: done.append("old"))
            yield TokenEvent("x")
            yield None

    def new() -> Any:
        seen.append(list(done))
        yield None

    runs = Runs(lambda: None, lambda: 0.0)
    runs.add(Admitted(), old())  # type: ignore[arg-type]
    runs.advance()
    done.clear()
    runs.add(Admitted(), new())  # type: ignore[arg-type]
    with wakes.held():
        runs.advance()
    assert seen == [["old"]]


class Admitted:
    """An answer whose reader has room."""

    def __init__(self) -> None:
        self.work: Any = self
        self.context: Any = self
        self.cancel = asyncio.Event()
        self.rests, self.request = False, TextRequest()

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    def tell(self, event: object) -> None:
        pass

    def room(self) -> bool:
        return True
