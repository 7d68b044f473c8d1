"""One look for all who ask within a second."""

from __future__ import annotations

import asyncio

import pytest

from edgeserve.cluster.fresh import FRESH, Fresh


@pytest.mark.parametrize("count", [1, 2, 50])
def test_all_who_ask_within_a_second_share_a_look(count: int) -> None:
    """Each request to the door's status asked all nodes: eight clients took half a second from a stream there."""
    now, looks = [100.0], 0

    async def look() -> dict[str, int]:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return {"looks": looks}

    async def run() -> None:
        fresh = Fresh(look, lambda: now[0])
        assert await asyncio.gather(*(fresh.get() for _ in range(count))) == [{"looks": 1}] * count
        now[0] += FRESH
        assert await asyncio.gather(*(fresh.get() for _ in range(count))) == [{"looks": 2}] * count

    asyncio.run(run())


def test_a_look_that_fails_is_repeated() -> None:
    looks = 0

    async def look() -> dict[str, int]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("no")
        return {}

    async def run() -> None:
        fresh = Fresh(look, lambda: 0.0)
        with pytest.raises(RuntimeError):
            await fresh.get()
        assert await fresh.get() == {}

    asyncio.run(run())
