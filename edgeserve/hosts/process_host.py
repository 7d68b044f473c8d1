"""A host whose engine lives in a process of its own."""

from __future__ import annotations

import functools
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edgeserve.clients import Idle
from edgeserve.engine import Batching, Engine
from edgeserve.engine_abilities import RemotePart, Splitting
from edgeserve.hosts.engine_host import EngineHost
from edgeserve.hosts.loop import IDLE_AFTER
from edgeserve.hosts.remote import RemoteEngine
from edgeserve.hosts.restarts import Restarts
from edgeserve.hosts.run import Ended
from edgeserve.hosts.runs import Runs
from edgeserve.hosts.split_engine import SplitEngine
from edgeserve.processes.launcher import Launcher
from edgeserve.residency import wakes
from edgeserve.residency.host import Pressure
from edgeserve.residency.work import Admitted


class RemoteLoop:
    """Passes on the events that a worker sends. The worker computes in a loop of its own.

    ``batches``: the engine makes several answers at once, and a paused one keeps its slot.
    """

    def __init__(self, remote: RemoteEngine, runs: Runs, batches: bool) -> None:
        self.runs = runs
        self.failed = False
        self._remote = remote
        self._batches = batches

    @property
    def slots(self) -> int:
        return self._remote.slots

    @property
    def free(self) -> bool:
        running = len(self.runs) if self._batches else len(self.runs) - self.runs.paused
        return running < self.slots

    @property
    def spare(self) -> Idle | None:
        if not self._batches:
            return Idle.CLIENT if self.free else self.runs.give_turn(self.slots)
        return self.runs.give_place(self.slots, link.state.beside if (link := self._remote.link) else 0)

    @property
    def crowded(self) -> bool:
        return self._batches and self.runs.paused > 0

    @property
    def starved(self) -> bool:
        return self._remote.starved and self.runs.paused > 0

    def begin(self, admitted: Admitted) -> None:
        work = admitted.work
        self.runs.add(admitted, self._remote.run(work.request, work.cancel, work.prepared))

    def turn(self) -> list[Ended]:
        """Pass on what has come; wait for more unless an answer has ended or every one waits for its reader.

        It does not wait behind a prompt that was read: the next one of its client may begin, and a call says nothing.
        """
        reading = self._reading()
        with wakes.held():  # nothing computes here
            ended, waiting = self.runs.advance()
        if waiting and not ended and self._reading() == reading:
            self._remote.wait()
        self.failed |= self._remote.failed
        return ended

    def _reading(self) -> int:
        return sum(run.work.reads for run in self.runs)

    def idle_work(self) -> Iterator[None]:
        return self._remote.idle_work()

    def wake(self) -> None:
        self._remote.wake()


class ProcessHost(EngineHost):
    """The engine lives in a worker, which is there from warm on. ``local``: the engine as this process knows it.

    What ends the worker ends at most the answers in it: the engine is cold, and the next request starts another.
    """

    def __init__(
        self,
        local: Engine,
        launcher: Launcher,
        pressure: Pressure,
        *,
        clock: Callable[[], float] = time.monotonic,
        idle_after: float = IDLE_AFTER,
    ) -> None:
        self.restarts = Restarts(local.spec.name, clock)
        terms: dict[str, Any] = {"may_start": self.restarts.check, "died": self._note_death, "clock": clock}
        if isinstance(local, Splitting):
            room = functools.partial(pressure.room, local.spec)
            self.remote: RemoteEngine = SplitEngine(local, launcher, room=room, **terms)
        else:
            self.remote = RemoteEngine(local, launcher, **terms)
        batches = isinstance(local, Batching)
        super().__init__(
            self.remote,
            self.remote.abilities(),
            RemoteLoop(
                self.remote, Runs(pressure.check, clock, functools.partial(pressure.in_the_way, local.spec)), batches
            ),
            pressure,
            idle_work=batches,
            clock=clock,
            idle_after=idle_after,
        )

    @property
    def pid(self) -> int | None:
        """The worker's; None while there is none."""
        link = self.remote.link
        return link.pid if link else None

    @property
    def report(self) -> Mapping[str, object]:
        """``deaths`` of workers so far; ``starts_in`` so many seconds at the earliest; ``confined`` while one runs."""
        link = self.remote.link
        confined = dict(link.state.confined) if link else None
        left = round(self.restarts.left(), 1)
        return {"isolation": "process", "deaths": self.restarts.total, "starts_in": left, "confined": confined}

    @property
    def remote_parts(self) -> tuple[RemotePart, ...]:
        return self.remote.remote_parts

    def check_nodes(self, make_way: Callable[[], None]) -> None:
        self.remote.check_nodes(make_way)

    def give_up(self) -> None:
        self.remote.give_up()

    def _note_death(self, code: int | None) -> None:
        self.restarts.note()
        self._pressure.ended(self.spec, code)
        if code == -signal.SIGKILL:
            self._pressure.outgrew(self.spec)
