"""Steps down that a user asks for, beside other moves."""

from __future__ import annotations

import asyncio

import pytest
from support.pools import until, with_pool

from edgeserve.engine import Rung
from edgeserve.residency import evictions
from edgeserve.residency.pool import Pool


def test_an_eviction_waits_for_a_move_under_way() -> None:
    async def test(pool: Pool) -> None:
        await pool.preload(["asr"])
        with pool.gates["asr"].host.hold():  # as the monitor does
            asked = asyncio.create_task(pool.evict("asr"))
            await until(lambda: bool(waiting))
            assert not asked.done()
        assert await asked, "nobody used it"
        assert pool.rung("asr") is Rung.COLD

    waiting: list[float] = []

    async def watched(pool: Pool) -> None:
        host = pool.gates["asr"].host
        hold = host.hold

        def noted(seconds: float = -1.0) -> object:
            waiting.extend([seconds] if seconds > 0 else [])
            return hold(seconds)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host, "hold", noted)
            await test(pool)

    with_pool(watched, "asr")


def test_an_engine_on_its_way_up_is_not_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer was "evicted", and the engine hot a moment later."""
    monkeypatch.setattr(evictions, "PATIENCE", 0.01)

    async def test(pool: Pool) -> None:
        host = pool.gates["asr"].host
        monkeypatch.setattr(host._ladder, "climbing", True)
        with host.hold():
            assert not await pool.evict("asr")
        monkeypatch.setattr(host._ladder, "climbing", False)
        assert await pool.evict("asr"), "it is cold"

    with_pool(test, "asr")


def test_an_engine_that_stays_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evictions, "PATIENCE", 0.01)

    async def test(pool: Pool) -> None:
        await pool.preload(["asr"])
        with pool.gates["asr"].host.hold():
            assert not await pool.evict("asr")
            assert pool.in_use("asr").message == "asr loads or moves at the moment; try again"
        first, second = await pool.lease("asr"), await pool.lease("asr")
        assert not await pool.evict("asr")
        assert pool.in_use("asr").message.startswith("asr is answering 2 requests; it is not closed under them")
        await first.release()
        assert pool.in_use("asr").message.startswith("asr is answering a request; it is not closed under it")
        await second.release()

    with_pool(test, "asr")
