"""Chaos, and who watches it: engines are moved about at random while clients ask, and every step is witnessed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, cast

import httpx
import pytest
from benchmarks.load import Ask, Load
from support.server import Running, stacks, until

from edgeserve.engine import Rung
from edgeserve.memory.history import StepRecord

LEGAL = {"open": (Rung.WARM, Rung.HOT), "heat": (Rung.HOT,), "park": (Rung.COLD, Rung.WARM), "close": (Rung.COLD,)}
"""The rungs on which an engine may stand after each step."""
RUNS = ("chat", "transcribe", "speak")
OVER = object()
"""Stands for the end of a run."""


def seeded() -> random.Random:
    """Fresh dice, or those of EDGESERVE_STRESS_SEED. The seed is printed, and shown by pytest when the test fails."""
    seed = int(os.environ.get("EDGESERVE_STRESS_SEED", 0)) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"EDGESERVE_STRESS_SEED={seed} repeats this run")
    return random.Random(seed)


class Witness:
    """Sees every step and every run of one engine.

    ``wrong`` tells what must never be:

    - two that compute at once, more runs than slots
    - a step while a run is under way, or to the wrong rung
    - an engine opened twice

    ``opened`` is opens less closes, ``moved`` counts steps down.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.opened = self.moved = self.runs = 0
        self.wrong: list[str] = []
        self._busy = threading.Lock()
        self._doing = ""
        self._stepping: int | None = None
        for name in LEGAL:
            setattr(engine, name, self._step(name, getattr(engine, name)))
        for name in RUNS:
            if hasattr(engine, name):
                setattr(engine, name, self._run(name, getattr(engine, name)))

    def _step(self, name: str, take: Callable[[], None]) -> Callable[[], None]:
        def step() -> None:
            if self._stepping == threading.get_ident():
                take()  # a step that is part of another: heat opens, close parks
                return
            with self._alone(name):
                if self.runs:
                    self.wrong.append(f"{name} during {self.runs} runs")
                self._stepping, before = threading.get_ident(), self.engine.rung
                try:
                    take()
                finally:
                    self._stepping = None
                self._note(name, before, self.engine.rung)

        return step

    def _run(self, name: str, events: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def run(*arguments: Any) -> Iterator[Any]:
            self.runs += 1
            if self.runs > getattr(self.engine, "slots", 1):
                self.wrong.append(f"{self.runs} runs at once")
            try:
                yield from self._in_turns(name, events(*arguments))
            finally:
                self.runs -= 1

        return run

    def _in_turns(self, what: str, events: Iterator[Any]) -> Iterator[Any]:
        with contextlib.closing(cast(Generator[Any, None, None], events)):
            while True:
                with self._alone(what):
                    event = next(events, OVER)  # None is a turn for others
                if event is OVER:
                    return
                yield event

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            self.wrong.append(f"{what} during {self._doing}")
            yield
            return
        self._doing = what
        try:
            yield
        finally:
            self._busy.release()

    def _note(self, name: str, before: Rung, after: Rung) -> None:
        self.opened += (before is Rung.COLD < after) - (after is Rung.COLD < before)
        self.moved += after < before
        if after not in LEGAL[name] or self.opened not in (0, 1):
            self.wrong.append(f"{name}: {before.name} to {after.name}, {self.opened} times open")


class Chaos:
    """Evicts, parks, preloads and reads at random, one act for each answered request."""

    def __init__(self, running: Running, dice: random.Random) -> None:
        self.pool, self.dice = running.pool, dice
        self.acts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._url = running.url
        self._turns: asyncio.Queue[bool] = asyncio.Queue()

    def answered(self) -> None:
        self._turns.put_nowait(True)

    def end(self) -> None:
        self._turns.put_nowait(False)

    async def run(self) -> None:
        acts = (self._evict, self._evict, self._park, self._preload, self._preload, self._read)
        async with httpx.AsyncClient(base_url=self._url, timeout=120, trust_env=False) as client:
            while await self._turns.get():
                await self.dice.choice(acts)(client)

    async def _evict(self, client: httpx.AsyncClient) -> None:
        self._judge("evict", await client.post(f"/memory/evict/{self._job()}"), {200, 503})

    async def _park(self, client: httpx.AsyncClient) -> None:
        self.acts[f"park {await self.pool.evict(self._job(), Rung.WARM)}"] += 1

    async def _preload(self, client: httpx.AsyncClient) -> None:
        answer = await client.post("/memory/preload", json={"engines": [self._job()]})
        self._judge("preload", answer, {200, 503, 507})

    async def _read(self, client: httpx.AsyncClient) -> None:
        path = self.dice.choice(("stats", "models", "evictions", "offloaded", "health"))
        self._judge(path, await client.get(f"/memory/{path}"), {200})

    def _job(self) -> Any:
        return self.dice.choice(tuple(self.pool.gates))

    def _judge(self, act: str, answer: httpx.Response, allowed: set[int]) -> None:
        self.acts[f"{act} {answer.status_code}"] += 1
        if answer.status_code not in allowed:
            self.wrong.append(f"{act} answered {answer.status_code}: {answer.text[:500]}")


def storm(running: Running, asks: list[Ask], dice: random.Random, *, clients: int, each: int, seconds: float) -> Load:
    """``clients`` at once, ``each`` with so many requests, beside the chaos. Fails with every thread's stack when it is
    not over after ``seconds``."""
    chaos = Chaos(running, dice)
    load = Load(running.url, asks, dice, fickle=0.15, answered=chaos.answered)

    async def all_of_it() -> None:
        await load.learn()
        turns = [iter(range(each)) for _ in range(clients)]
        acting = asyncio.create_task(chaos.run())
        await asyncio.gather(*(load.client(lambda turn=turn: next(turn, None) is not None) for turn in turns))
        chaos.end()
        await acting

    try:
        asyncio.run(_within(all_of_it(), seconds))
    except TimeoutError:
        pytest.fail(stacks())
    print(sorted(Counter((one.job, one.status) for one in load.outcomes).items()), f"{load.left} left", chaos.acts)
    load.wrong += chaos.wrong
    return load


async def _within(work: Awaitable[None], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await work


def settle(running: Running, load: Load, witnesses: list[Witness]) -> None:
    """Wait until all is over and check what is left.

    Every answer was right or a refusal, and not all were refused. Nothing is held, every step down is in the history,
    and no engine was moved that must not be.
    """
    assert load.wrong == [], load.wrong
    stormed = load.outcomes[len(load.asks) :]  # those before were asked alone
    assert 4 * sum(one.status == 200 for one in stormed) > len(stormed)
    gates, accounts = tuple(running.pool.gates.values()), running.pool.governor.accounts
    for gate in gates:
        gate.pinned = True  # the idle monitor looks away from here on
    until(lambda: accounts.no_reservations() and not any(gate.leases for gate in gates), 30)
    counts = accounts.history.counts
    until(lambda: counts["offloaded"] + counts["unloaded"] == sum(one.moved for one in witnesses))
    assert [record for record in accounts.history if not _sound(record)] == []
    assert [fault for one in witnesses for fault in one.wrong] == []


def _sound(record: StepRecord) -> bool:
    return record.after < record.before and record.expected >= 0 and record.freed >= 0
