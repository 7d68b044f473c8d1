"""Measurements of the memory targets: steps down that return all, the way back up, and estimates."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
from benchmarks.ask import Answer, Client
from benchmarks.device import Device
from benchmarks.process import Memory, ServerProcess, family, serving
from benchmarks.scenario import PROMPT, QUESTION, SENTENCE, close_all

from edgeserve.jobs import INFO, JOBS, Job

QUICK = {"warm_after": 0.4, "idle_timeout": 1.2, "check_interval": 0.1}
"""[residency] of the cycles: long enough to read the memory of a hot engine, short enough for twenty of them."""
STILL = {"warm_after": 3600.0, "idle_timeout": 3600.0, "check_interval": 3600.0}
"""[residency] under which nothing moves by itself."""
WARM_UP = 2
"""Cycles that do not count: a runtime's one-off costs are paid in them."""
RUNGS = {"offloaded": "warm", "unloaded": "cold"}
"""The rung at the end of a step down, by the step's name in GET /memory/evictions."""
LAST_STEP: Mapping[Job, str] = {job: "offloaded" if INFO[job].mapped else "unloaded" for job in JOBS}
DEADLINE = 60.0
OURS = "edgeserve: "
FORKS = "edgeserve: forks"[:15]
STILL_LOOKS = 20
"""Looks in a row, a second in all, after which a server has started."""
REST_SECONDS = 75.0
"""A fork server ends a minute after its last child."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """Memory before the request, while hot, and when the engine stood on its lowest rung again."""

    job: Job
    before: Memory
    hot: Memory
    after: Memory

    @property
    def took(self) -> float:
        """Anonymous memory, MB."""
        return self.hot.anonymous - self.before.anonymous

    @property
    def returned(self) -> float:
        """Share of that which came back."""
        return (self.hot.anonymous - self.after.anonymous) / self.took if self.took > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One verified step down as GET /memory/evictions tells it, MB."""

    job: Job
    action: str
    expected: float
    freed: float


@dataclass(frozen=True, slots=True)
class Climb:
    """Seconds to the first token or sound, or to the text of a recording, from a rung."""

    job: Job
    rung: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """MB of one engine: expected before the load, found by the server after it, and by how much the process grew."""

    job: Job
    origin: str
    expected: float
    measured: float
    grew: float

    @property
    def error(self) -> float:
        """Error of ``expected`` against ``measured``, as a share; infinite when nothing was measured."""
        return self.expected / self.measured - 1.0 if self.measured else math.inf


def asking(device: Device, recording: bytes) -> dict[Job, Callable[[Client, int], Answer]]:
    """One short request for each engine; the number keeps a prompt from being the last one's."""
    return {
        "llm": lambda client, number: client.chat(f"{number}. {PROMPT}", 16),
        "vision": lambda client, number: client.see(device.picture, f"{number}. {QUESTION}", 8),
        "asr": lambda client, number: client.transcribe(recording),
        "tts": lambda client, number: client.speak(SENTENCE),
    }


Asking = Mapping[Job, Callable[[Client, int], Answer]]


def wait_down(client: Client, job: Job, since: float, actions: Collection[str]) -> str:
    """Poll until the server has verified one of these steps down of the engine after ``since`` (seconds since the
    epoch); returns its action. Not the rung: that falls before the memory is back. Raises TimeoutError."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        for one in client.get("/memory/evictions"):
            if one["model_type"] == job and one["timestamp"] >= since and one["action"] in actions:
                return str(one["action"])
        time.sleep(0.02)
    raise TimeoutError(f"{job} was not {' or '.join(actions)} within {DEADLINE:g} s")


def wait_for_estimates(server: ServerProcess) -> None:
    """Wait until the processes that estimate models at the start have ended, one after the other, or REST_SECONDS are
    over: then the figures show them. Workers have names of their own."""
    until = time.monotonic() + REST_SECONDS
    still = 0
    while still < STILL_LOOKS and time.monotonic() < until:
        with contextlib.suppress(psutil.NoSuchProcess):
            still = still + 1 if all(one.name().startswith(OURS) for one in family(server.pid)[1:]) else 0
        time.sleep(0.05)


def wait_for_forks(server: ServerProcess) -> None:
    """Wait until the fork servers have ended, as they do some time after their last child, or REST_SECONDS are over:
    then the figures show them."""
    until = time.monotonic() + REST_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(psutil.NoSuchProcess):  # one ended as its name was read: look again
            if not any(one.name().startswith(FORKS) for one in family(server.pid)):
                return
        time.sleep(0.05)


def cycles(server: ServerProcess, asked: Asking, count: int) -> list[Cycle]:
    """Each engine used and left alone until it is down, one after the other, ``count`` times.

    A cycle ends when the fork servers have ended too, so that none of them counts as what another engine took.
    """
    client, done = Client(server.port), []
    for number in range(count):
        for job in JOBS:
            before = server.memory()
            asked[job](client, number)
            since, hot = time.time(), server.memory()  # on a busy box an engine may step down while its picture is read
            wait_down(client, job, since, {LAST_STEP[job]})
            wait_for_forks(server)
            done.append(Cycle(job, before, hot, server.memory()))
    return done


def steps(server: ServerProcess) -> list[Step]:
    """The verified steps so far, those left out that other engines moved at the same time as."""
    told: list[dict[str, Any]] = Client(server.port).get("/memory/evictions")
    return [
        Step(one["model_type"], one["action"], one["expected_mb"], one["memory_freed_mb"])
        for one in told
        if one["exact"]
    ]


def climbs(server: ServerProcess, asked: Asking, rounds: int) -> list[Climb]:
    """From the first rung that an idle engine falls to (warm, or cold where it has no warm), and from hot."""
    client, done = Client(server.port), []
    for number in range(0, 3 * rounds, 3):
        for job in JOBS:
            asked[job](client, number)
            since = time.time()
            rung = RUNGS[wait_down(client, job, since, RUNGS)]
            done.append(Climb(job, rung, asked[job](client, number + 1).first))
            done.append(Climb(job, "hot", asked[job](client, number + 2).first))
    return done


def estimates(device: Device, asked: Asking, origin: str) -> list[Estimate]:
    """Every engine alone, from cold. ``origin``: "estimate" forgets the device's learned peaks, "learned" uses them."""
    if origin == "estimate":
        device.forget()
    done = []
    with serving(device.config("estimates", residency=STILL), environ=device.environ) as server:
        server.wait_healthy()
        close_all(server)
        client = Client(server.port)
        for job in JOBS:
            before = server.memory()
            asked[job](client, 0)
            grew = server.memory().pss - before.pss
            row = next(one for one in client.get("/memory/models") if one["model_type"] == job)
            done.append(Estimate(job, origin, row["estimated_mb"], row["memory_mb"], grew))
            client.post(f"/memory/evict/{job}")
    return done


def share_returned(done: Sequence[Cycle], job: Job) -> float:
    """Median share of the anonymous memory that came back, after the first cycles."""
    return statistics.median(one.returned for one in of(done, job)[WARM_UP:])


def drift(done: Sequence[Cycle], job: Job | None = None) -> float:
    """MB of anonymous memory gained from the end of the second cycle to the end of the last.

    With ``job`` only the growth during the cycles of that engine counts."""
    if job is not None:
        return sum(one.after.anonymous - one.before.anonymous for one in of(done, job)[WARM_UP:])
    engines = len({one.job for one in done})
    return done[-1].after.anonymous - done[WARM_UP * engines - 1].after.anonymous


def of(done: Sequence[Cycle], job: Job) -> list[Cycle]:
    return [one for one in done if one.job == job]
