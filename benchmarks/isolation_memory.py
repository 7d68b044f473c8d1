"""Memory of all processes of a server with four engines, from its start until every engine is cold again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from benchmarks.ask import Client
from benchmarks.device import Device
from benchmarks.process import Memory, ServerProcess, family, memory_of, serving
from benchmarks.scenario import close_all
from benchmarks.targets import DEADLINE, LAST_STEP, Asking, Step, steps, wait_down, wait_for_estimates, wait_for_forks

from edgeserve.jobs import JOBS

RESIDENCY = {"warm_after": 12.0, "idle_timeout": 14.0, "check_interval": 0.25}
"""Long enough for one request to each engine while all are hot."""


@dataclass(frozen=True, slots=True)
class State:
    """A moment in the server's life, and the most that all its processes may take then, MB."""

    name: str
    target: float | None = None


STATES: Mapping[str, State] = {
    "started": State("started", 60.0),
    "hot": State("all four used, hot"),
    "idle": State("idle: llm and vision warm, speech cold"),
    "rested": State("the same, a minute later"),
    "warm": State("llm warm, the others cold", 70.0),
    "cold": State("all cold", 45.0),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """All processes together, and each by its name."""

    memory: Memory
    processes: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Life:
    moments: Mapping[str, Moment]
    steps: Sequence[Step]


def live(device: Device, isolation: str, asked: Asking) -> Life:
    """One server's life under this isolation."""
    config = device.config(f"memory {isolation}", server={"isolation": isolation}, residency=RESIDENCY)
    moments: dict[str, Moment] = {}
    with serving(config, "--log-level", "warning", environ=device.environ) as server:
        server.wait_healthy()
        client = Client(server.port)
        wait_for_estimates(server)
        moments["started"] = look(server)
        for number in range(2):  # the second time without a load, so that all are hot at its end
            for job in JOBS:
                asked[job](client, number)
        since = time.time()
        _require(server, dict.fromkeys(JOBS, "hot"))
        moments["hot"] = look(server)
        for job in JOBS:
            wait_down(client, job, since, {LAST_STEP[job]})
        moments["idle"] = look(server)
        wait_for_forks(server)
        moments["rested"] = look(server)
        close_all(server, ("vision",))
        _require(server, {"llm": "warm", "vision": "cold", "asr": "cold", "tts": "cold"})
        moments["warm"] = look(server)
        close_all(server)
        moments["cold"] = look(server)
        return Life(moments, steps(server))


def look(server: ServerProcess) -> Moment:
    named: dict[str, float] = {}
    for one in family(server.pid):
        name = "server" if one.pid == server.pid else one.name()
        named[name] = named.get(name, 0.0) + memory_of(one.pid).pss
    return Moment(server.memory(), named)


def _require(server: ServerProcess, wanted: Mapping[str, str]) -> None:
    """Wait for these rungs. Raises TimeoutError."""
    until = time.monotonic() + DEADLINE
    while (rungs := cast(Any, server.get("/v1/health"))["rungs"]) != wanted:
        if time.monotonic() > until:
            raise TimeoutError(f"the rungs are {rungs} instead of {dict(wanted)}")
        time.sleep(0.05)
