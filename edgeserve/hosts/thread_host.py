"""A host on threads of the serving process."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping

from edgeserve.engine import Batching, Engine
from edgeserve.hosts.abilities import Abilities
from edgeserve.hosts.engine_host import EngineHost
from edgeserve.hosts.loop import IDLE_AFTER, loop_of
from edgeserve.hosts.runs import Runs
from edgeserve.residency.host import Pressure


class ThreadHost(EngineHost):
    """The engine lives in this process. A failed assertion of its runtime ends the server."""

    def __init__(
        self,
        engine: Engine,
        pressure: Pressure,
        *,
        clock: Callable[[], float] = time.monotonic,
        idle_after: float = IDLE_AFTER,
    ) -> None:
        super().__init__(
            engine,
            Abilities.of(engine),
            loop_of(engine, Runs(pressure.check, clock, functools.partial(pressure.in_the_way, engine.spec))),
            pressure,
            idle_work=isinstance(engine, Batching),
            clock=clock,
            idle_after=idle_after,
        )

    @property
    def report(self) -> Mapping[str, object]:
        return {"isolation": "thread"}
