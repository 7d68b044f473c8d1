"""Measures the time for which one piece of work keeps the event loop, or the interpreter, to itself."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any


async def longest_turn(work: Coroutine[Any, Any, Any]) -> float:
    """Seconds of this thread's own computing; what other threads and processes take meanwhile does not count."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        await work
        await asyncio.sleep(0)
    finally:
        watching.cancel()
    return longest


def longest_call(work: Callable[[], object]) -> float:
    """Seconds of this thread's own computing between two calls of Python functions: no other thread runs meanwhile."""
    longest, before = 0.0, time.thread_time()

    def note(*_: object) -> None:
        nonlocal longest, before
        now = time.thread_time()
        longest, before = max(longest, now - before), now

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return longest


HARD = (
    "2.2250738585133008705209665265435358942515706074148648646763465025"
    "6326642050285723028532928752115866407969386991687e-308"
)
"""A number in the middle between two floats. It takes the longest to read of all numbers of its length."""
