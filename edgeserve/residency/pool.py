"""The gates of all models that the device serves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from edgeserve import clients
from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import Busy, EdgeserveError, ShuttingDown
from edgeserve.figures import account as accounts
from edgeserve.figures.figures import Figures
from edgeserve.jobs import Job
from edgeserve.memory.governor import Governor
from edgeserve.messages import Request
from edgeserve.processes.roster import Roster
from edgeserve.residency import closing
from edgeserve.residency.ahead import Ahead, loaded
from edgeserve.residency.directory import Directory, Terms, arranged, not_configured
from edgeserve.residency.evictions import Evictions, in_use
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import Host
from edgeserve.residency.lease import Lease
from edgeserve.residency.leaving import Leaving
from edgeserve.residency.mailbox import Deliveries
from edgeserve.residency.names import spellings
from edgeserve.residency.prefetches import Prefetches
from edgeserve.residency.successions import Successions

OnDemand = Callable[[str, Sequence[Job]], tuple[Host, Terms] | None]
"""Host and terms of the model that a name means, among those of some jobs; None: there is none."""


class Pool:
    """Every model that the device serves, behind its gate. Models come and go on the event loop's thread.

    ``queue_limit`` as in ``Gate``. ``terms`` of the models by id. ``chains`` as in ``Ahead``. ``on_demand``: makes the
    host of a model that is not served yet. ``stand_ins``: a request for a model that is not here gets the default of
    its job, where that is clear. ``deliveries``: the answers on their way to their readers, which the governor counts.
    ``roster``: the launchers of the hosts' workers, which end with the pool. ``clock`` in seconds.
    """

    def __init__(
        self,
        hosts: Iterable[Host],
        governor: Governor,
        *,
        queue_limit: int = 8,
        terms: Mapping[str, Terms] = MappingProxyType({}),
        chains: Mapping[str, Sequence[str]] = MappingProxyType({}),
        on_demand: OnDemand | None = None,
        stand_ins: bool = False,
        deliveries: Deliveries | None = None,
        roster: Roster | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.idle = threading.Event()
        """Set when a lease or its work has ended and its request gave a ``keep_alive``; the monitor clears it."""

        self.gates: Mapping[str, Gate] = MappingProxyType({})
        """By id of the model. Another mapping takes its place when a model comes or goes."""
        self.directory = Directory()
        self.governor = governor
        self.ahead = Ahead(lambda: self.gates, self.directory, governor, chains)
        self.stand_ins = stand_ins
        self.renew: Callable[[str], Awaitable[None]] | None = None
        """Replaces a model whose files have changed on the disk, before its next load."""
        self.asked: Callable[[], None] = lambda: None
        """Called as each request, or a load that is asked for, begins."""
        self._successions = Successions()
        self._on_demand = on_demand
        self._evictions = Evictions(governor)
        self.deliveries = deliveries or Deliveries()
        self.roster = roster or Roster()
        self._queue_limit = queue_limit
        self._clock = clock
        self.prefetches = Prefetches(governor, self.directory)
        self._leaving = Leaving(governor, self.prefetches)
        for host in hosts:
            self.add(host, terms.get(host.spec.id, Terms()))

    @property
    def figures(self) -> Figures:
        return self.governor.figures

    @property
    def configured(self) -> Mapping[str, ModelSpec]:
        """The models by id."""
        return {model: gate.spec for model, gate in self.gates.items()}

    def add(self, host: Host, terms: Terms) -> Gate:
        """Serve one more model, cold."""
        gate = Gate(
            host,
            self.governor,
            queue_limit=self._queue_limit,
            pinned=terms.pinned,
            keep_alive=terms.keep_alive,
            clock=self._clock,
            on_idle=self.idle.set,
        )
        self.governor.adopt(gate)
        self.prefetches.add(gate)
        self.directory.add(host.spec, terms)
        self.gates = MappingProxyType({**self.gates, gate.id: gate})
        return gate

    def find(self, name: str, jobs: Sequence[Job]) -> str | None:
        """Id of the model that a request means, as ``Directory.find``; a model that is served on demand is added.

        The name of a model that is served on demand goes before patterns. Raises Busy while an engine of that name
        leaves.
        """
        found = self.directory.find(name, jobs, patterns=not self.serves_stored)
        if found is not None or not name or not self.serves_stored:
            return found
        if (made := self._made_on_demand(name, jobs)) is None:
            return self.directory.find(name, jobs)
        model = made[0].spec.id
        if model in self.gates:
            return None  # a model of another job has this name
        if any(gate.id == model for gate in self.leaving):
            raise Busy(f"{model} ends its last answers, and is served again then; try again", retry_after=5)
        return self.add(*made).id

    @property
    def serves_stored(self) -> bool:
        """Whether requests may also name models that were pulled and are not served yet."""
        return self._on_demand is not None

    def _made_on_demand(self, name: str, jobs: Sequence[Job]) -> tuple[Host, Terms] | None:
        if self._on_demand is None:
            return None
        make = self._on_demand
        return next(filter(None, (make(one, jobs) for one in spellings(name))), None)

    async def remove(self, model: str) -> None:
        """Serve a model no more: answers under way end whole, then its engine is closed. Raises NotConfigured."""
        gate = self._gate(model)
        self.directory.remove(model)
        self.gates = MappingProxyType({name: one for name, one in self.gates.items() if one is not gate})
        await self._leaving.leave(gate)

    async def replace(self, host: Host, terms: Terms) -> None:
        """Serve a model by another engine, cold, once its answers under way have ended whole.

        Requests that come meanwhile wait for it. Once a model at a time. Raises NotConfigured, and ShuttingDown.
        """
        gate = self._gate(host.spec.id)
        with self._successions.under_way(gate.id):
            await self._leaving.leave(gate)
            if self._successions.closed:
                await asyncio.to_thread(host.stop)
                raise ShuttingDown("the server is shutting down and loads nothing more", retry_after=5)
            self.add(host, terms)

    def tune(self, model: str, terms: Terms) -> None:
        """Serve a model on other terms from now on. Raises NotConfigured."""
        gate = self._gate(model)
        self.directory.add(gate.spec, terms)
        gate.tune(terms.pinned, terms.keep_alive)

    def arrange(self, order: Sequence[str]) -> None:
        """Let the models stand in this order: the first of a job is its default where no other one is."""
        self.directory.arrange(order)
        self.gates = MappingProxyType({model: self.gates[model] for model in arranged(self.gates, order)})

    @property
    def queue_limit(self) -> int:
        """As in ``Gate``, for all models."""
        return self._queue_limit

    @queue_limit.setter
    def queue_limit(self, most: int) -> None:
        self._queue_limit = most
        for gate in self.gates.values():
            gate.queue_limit = most

    @property
    def leaving(self) -> tuple[Gate, ...]:
        """Gates that are removed or replaced, while their last answers run."""
        return self._leaving.gates

    @property
    def ending(self) -> bool:
        """Whether the pool takes no new requests any more."""
        return self._successions.closed

    def rung(self, model: str) -> Rung:
        return self._gate(model).rung

    def failing(self) -> list[str]:
        """Models whose engine has lost a thread; a restart of the server is the only way back."""
        return [model for model, gate in self.gates.items() if not gate.host.healthy]

    async def lease(
        self, model: str, keep_alive: float | None = None, begun: Callable[[], None] = lambda: None
    ) -> Lease:
        """A lease on a model for the current client; the gate reserves memory when the work begins.

        ``keep_alive``: idle seconds after which the engine steps down; None: as configured. ``begun`` is called on the
        host's thread as each request begins. Raises NotConfigured, Busy or ShuttingDown.
        """
        self.asked()
        gate, client = await self._current(model), clients.current.get()
        if (account := accounts.current.get()) is not None:
            account.asks(gate.spec.job, gate.id)
        try:
            gate.acquire(keep_alive, client)
        except EdgeserveError as error:
            gate.figures.refused(gate.spec, error)
            raise

        def began(request: Request) -> None:
            begun()
            self.ahead.begun(request)

        return Lease(gate, self.deliveries, began, client)

    def voices(self, model: str = "tts") -> tuple[str, ...]:
        """Voices of a speech model, the default first."""
        return self._gate(model).host.voices()

    def languages(self, model: str = "asr") -> tuple[str, ...]:
        """Language codes of a transcription model; none where only the open model knows them."""
        return self._gate(model).host.languages()

    async def preload(self, models: Iterable[str]) -> dict[str, bool]:
        """Bring models up to hot; True for each that is hot now. Raises the first error of a load."""
        self.asked()
        gates = [await self._current(model) for model in models]
        for gate in gates:
            await loaded(gate)
        return {gate.id: gate.rung is Rung.HOT for gate in gates}

    def wanted_by_others(self, model: str) -> bool:
        """Whether a client other than the current one wants the model to stay loaded."""
        return self._gate(model).wanted_by_others(clients.current.get())

    async def evict(self, model: str, to: Rung = Rung.COLD) -> bool:
        """Ask a model to step down, after a move under way; False when a lease or a load holds it."""
        return await self._evictions.evict(self._gate(model), to)

    def in_use(self, model: str) -> Busy:
        """The error for a model that did not step down when it was asked to. Raises NotConfigured."""
        return in_use(self._gate(model))

    async def drain(self, seconds: float) -> None:
        """Take no new requests. Answers under way may end within ``seconds``; then they are cut with ShuttingDown."""
        self._successions.close()
        await self.prefetches.stop()
        await closing.drain(self._all(), seconds)
        await self.give_up()

    async def give_up(self) -> None:
        """End the loads under way where that can be done: the server ends."""
        await closing.give_up(self._all())

    @property
    def loading(self) -> list[str]:
        """Models that are on their way up."""
        return [gate.id for gate in self._all() if gate.host.loading]

    async def stop(self) -> None:
        """End the threads of all hosts and close all engines."""
        self._successions.close()
        await self.give_up()
        await self.prefetches.stop()
        for gate in self._all():
            await asyncio.to_thread(gate.stop)
        await asyncio.to_thread(self.roster.stop)

    def _all(self) -> tuple[Gate, ...]:
        return (*self.gates.values(), *self.leaving)

    async def _current(self, model: str) -> Gate:
        """The gate of a model: of the engine that takes its place, where it is being replaced or its files have been.

        Raises NotConfigured, Busy, ShuttingDown, and the errors of ``renew``.
        """
        looked = self.renew is None
        while True:
            await self._successions.over(model)
            gate = self._gate(model)
            if looked or gate.rung is Rung.HOT or gate.leases:
                return gate
            looked = True
            if await asyncio.to_thread(gate.outdated) and self.renew is not None and gate is self.gates.get(model):
                await self.renew(model)

    def _gate(self, model: str) -> Gate:
        try:
            return self.gates[model]
        except KeyError:
            raise not_configured(model) from None
