"""Pools of fake engines, and a wait for their threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from support.gates import FAKES, CountingGovernor, fake_spec

from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import Job
from edgeserve.residency.pool import Pool


def make_pool(*jobs: Job, **settings: Any) -> Pool:
    governor: Any = CountingGovernor()
    clock: Any = settings.pop("clock", time.monotonic)
    options = settings.pop("options", {})
    hosts = [ThreadHost(FAKES[job](fake_spec(job, **options)), governor, clock=clock) for job in jobs]
    return Pool(hosts, governor, clock=clock, **settings)  # type: ignore[arg-type]


def with_pool(test: Callable[[Pool], Awaitable[None]], *jobs: Job, **settings: Any) -> None:
    async def run() -> None:
        pool = make_pool(*jobs, **settings)
        try:
            await test(pool)
        finally:
            await pool.stop()

    asyncio.run(run())


async def until(true: Callable[[], bool]) -> None:
    """Wait for what other threads do."""
    async with asyncio.timeout(10):
        while not true():
            await asyncio.to_thread(time.sleep, 0.001)
