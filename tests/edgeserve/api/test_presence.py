"""Work beside a watch of its client."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from edgeserve.api.presence import watching


@pytest.mark.parametrize("steps", range(5))
def test_work_that_is_cancelled_while_its_watch_ends_is_cancelled(steps: int) -> None:
    """The end of the watch swallowed it. ``steps``: of the loop, before the cancellation."""

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("the client stays")

    async def gone() -> None:
        """Not called."""

    async def work() -> None:
        async with watching(receive, gone):
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    async def run() -> None:
        task = asyncio.create_task(work())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=1)
        assert task.cancelled()

    asyncio.run(run())
