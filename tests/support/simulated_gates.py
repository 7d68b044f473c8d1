"""Gates on a simulated clock, with the rules of ``residency.gate`` and ``hosts.engine_host``, and the real governor."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from support.memory import POLICY, FakeResident, World
from support.simulation import FOREVER, Simulation

from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import Cancelled, EdgeserveError
from edgeserve.memory.governor import Reservation
from edgeserve.memory.resident import Moved, Refused
from edgeserve.memory.terms import Terms


@dataclass(eq=False)
class Asked:
    """One request. ``began`` is None until its answer begins; ``error`` is why there is none.

    ``part``: seconds after which the answer may rest, again and again. ``left``: seconds of it that are to come.
    """

    model: str
    arrived: float
    seconds: float
    leaves: float = FOREVER
    part: float = FOREVER
    left: float = field(init=False)
    began: float | None = None
    error: EdgeserveError | None = None
    cancel: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.left = self.seconds


@dataclass(frozen=True)
class Span:
    """Something that took time: an answer, a way up, a step down."""

    kind: str
    model: str
    start: float
    end: float


class SimulatedGate(FakeResident):
    """An engine of ``size`` MB whose steps take ``up`` and ``down`` seconds, with ``slots`` answers at a time.

    Each answer takes ``request`` MB more."""

    def __init__(
        self,
        name: str,
        size: int,
        *,
        up: float,
        down: float,
        slots: int,
        request: int = 1,
        pinned: bool = False,
        rests: bool = False,
    ) -> None:
        super().__init__("llm", 0, size, request, pinned=pinned)
        self.spec = ModelSpec("tts" if rests else "llm", f"fake-{name}", "e:E", id=name)
        self.up, self.down, self.slots, self.rests = up, down, slots, rests
        self.queue: deque[Asked] = deque()
        self.running: list[tuple[float, Reservation, Asked]] = []
        self.asking = self.held = False
        self.world: SimulatedWorld

    def step_down(self, to: Rung, *, leased: bool = False) -> Moved | Refused:
        mine = self.asking and self.world.simulation.running_as == self.id
        if not mine and (self.leases and not leased):
            return Refused("leased")
        if not mine and self.held:
            return Refused("at work")
        assert not self.running, "an answer is under way"
        assert not self.pinned
        self.held = True
        self.world.take("down", self.id, self.down)
        moved = super().step_down(to, leased=True)
        self.held = mine
        return moved

    def live(self) -> None:
        """The thread of the gate's worker."""
        world = self.world
        world.simulation.running_as = self.id
        while True:
            world.wait(self, FOREVER, lambda: bool(self.queue) and not self.held)  # another thread may move the engine
            self.held = True
            while self.queue or self.running:
                self._let_in()
                if self.running:
                    self._go_on()
            self.held = False
            world.governor.wake()

    def _let_in(self) -> None:
        while self.queue and len(self.running) < self.slots:
            asked = self.queue[0]
            try:
                reservation = self._reserve(asked)
            except EdgeserveError as error:
                asked.error = error
                self._leave(asked)
                continue
            if reservation is None:
                return
            self.queue.popleft()
            now = self.world.clock.now
            asked.began = now if asked.began is None else asked.began
            self.running.append((now + min(asked.part, asked.left), reservation, asked))

    def _reserve(self, asked: Asked) -> Reservation | None:
        governor = self.world.governor
        if asked.cancel.is_set():
            raise Cancelled("gone")
        if self.running:
            return governor.reserve_at_once(self)
        self.asking = True
        try:
            reservation = governor.reserve(self, Terms(asked.cancel, asked.arrived, resumed=asked.began is not None))
        finally:
            self.asking = False
        if self.rung is not Rung.HOT:
            self.world.take("up", self.id, self.up)
            self.climb()
        governor.settle(reservation)
        return reservation

    def _go_on(self) -> None:
        world = self.world
        first = min(end for end, _, _ in self.running)
        queued = len(self.queue)
        world.wait(self, first - world.clock.now, lambda: len(self.queue) > queued and len(self.running) < self.slots)
        for one in [one for one in self.running if one[0] <= world.clock.now]:
            end, reservation, asked = one
            self.running.remove(one)
            done = min(asked.part, asked.left)
            asked.left -= done
            world.spans.append(Span("answer", self.id, end - done, end))
            if asked.left and not world.governor.in_the_way(self.spec):
                self.running.append((end + min(asked.part, asked.left), reservation, asked))
                continue
            world.governor.release(reservation)
            if asked.left:
                self.queue.appendleft(asked)
                continue
            self.leases -= 1
            self.last_used = world.clock.now
            world.governor.wake()

    def _leave(self, asked: Asked) -> None:
        self.queue.remove(asked)
        self.leases -= 1
        self.world.governor.wake()


class Named(Simulation):
    """Knows whose thread runs."""

    running_as = ""


class SimulatedWorld(World):
    """A machine of ``total`` MB with gates that get ``requests``."""

    def __init__(self, total: int, gates: Sequence[SimulatedGate], requests: Sequence[Asked], dice: random.Random):
        self.simulation = Named(dice)
        super().__init__(total, *gates, policy=POLICY)
        self.governor.accounts.clock = self.simulation
        self.clock: Any = self.simulation
        self.gates = {one.id: one for one in gates}
        self.requests = requests
        self.spans: list[Span] = []
        for gate in gates:
            gate.world = self

    def play(self) -> None:
        """Until every request has ended. Raises the error of any thread."""
        for gate in self.gates.values():
            self.simulation.spawn(gate.live)
        for asked in self.requests:
            self.simulation.spawn(lambda asked=asked: self._arrive(asked))  # type: ignore[misc]
        self.simulation.run()

    def wait(self, gate: SimulatedGate, seconds: float, ready: Any) -> None:
        self.simulation.wait(seconds, ready)
        self.simulation.running_as = gate.id

    def take(self, kind: str, model: str, seconds: float) -> None:
        """A step of so many seconds, on the calling thread."""
        me, start = self.simulation.running_as, self.clock.now
        self.simulation.wait(seconds)
        self.simulation.running_as = me
        self.spans.append(Span(kind, model, start, self.clock.now))

    def _arrive(self, asked: Asked) -> None:
        simulation, gate = self.simulation, self.gates[asked.model]
        simulation.wait(asked.arrived - simulation.now)
        gate.leases += 1
        gate.queue.append(asked)
        if asked.leaves < FOREVER:
            simulation.wait(asked.leaves)
            asked.cancel.set()
            self.governor.wake()

    def _wait(self, condition: Any, seconds: float) -> None:
        """``Accounts.pause``: until the accounts are stirred."""
        accounts, me = self.governor.accounts, self.simulation.running_as
        stirred = accounts.stirred
        condition.release()
        try:
            self.simulation.wait(seconds, lambda: accounts.stirred != stirred)
        finally:
            condition.acquire()
            self.simulation.running_as = me
