"""Measures the time for which one piece of work keeps the event loop to itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
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
