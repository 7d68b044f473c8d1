"""Counts the work that is done while nobody else can run: on an event loop, and in the interpreter."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any


async def most_in_a_turn(work: Coroutine[Any, Any, Any], count: Callable[[], int]) -> int:
    """The largest growth of a count between two turns of another task of this event loop."""
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            before = count()
            await asyncio.sleep(0)
            most = max(most, count() - before)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        await work
        await asyncio.sleep(0)
    finally:
        watching.cancel()
    return most


@contextlib.contextmanager
def counted_calls(of: Callable[[FrameType], bool] = lambda frame: True) -> Iterator[Callable[[], int]]:
    """Count the calls of Python functions in this thread; ``of`` chooses which."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and of(frame)

    sys.setprofile(note)
    try:
        yield lambda: count
    finally:
        sys.setprofile(None)


def calls_in_json(work: Callable[[], object]) -> int:
    """Calls of Python functions by the package ``json``. At each of them another thread may run.

    The parts of ``json`` that are written in C hold the interpreter from one call to the next.
    """
    with counted_calls(_in_json) as count:
        work()
        return count()


def _in_json(frame: FrameType) -> bool:
    callers = (frame, frame.f_back)
    return any(one is not None and one.f_globals.get("__name__", "").startswith("json.") for one in callers)
