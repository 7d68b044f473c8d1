"""The gates of all models that the device serves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from edgeserve import clients
from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import NotConfigured, ShuttingDown
from edgeserve.jobs import INFO, Job
from edgeserve.memory.governor import Governor
from edgeserve.messages import Request
from edgeserve.processes.roster import Roster
from edgeserve.residency.aside import Aside
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import Host
from edgeserve.residency.lease import Lease
from edgeserve.residency.mailbox import Deliveries
from edgeserve.residency.monitor import MAPPED_AT_STARTUP
from edgeserve.residency.work import kind_of
from edgeserve.system.prefetch import Prefetch


class Pool:
    """Every engine that the device is configured for, behind its gate.

    ``queue_limit`` and ``pinned`` as in ``Gate``. ``chains``: engines to heat ahead, where they fit, when a request of
    a kind begins. ``deliveries``: the answers on their way to their readers, which the governor counts. ``roster``: the
    launchers of the hosts' workers, which end with the pool. ``clock`` in seconds.
    """

    def __init__(
        self,
        hosts: Iterable[Host],
        governor: Governor,
        *,
        queue_limit: int = 8,
        pinned: Collection[Job] = (),
        chains: Mapping[str, Sequence[Job]] = MappingProxyType({}),
        deliveries: Deliveries | None = None,
        roster: Roster | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.idle = threading.Event()
        """Set when a lease or its work has ended and its request gave a ``keep_alive``; the monitor clears it."""

        def make_gate(host: Host) -> Gate:
            is_pinned = host.spec.job in pinned
            return Gate(host, governor, queue_limit=queue_limit, pinned=is_pinned, clock=clock, on_idle=self.idle.set)

        self.gates: Mapping[Job, Gate] = MappingProxyType({host.spec.job: make_gate(host) for host in hosts})
        self.governor = governor
        self.chains = chains
        self._moves = Aside("moves of engines", threads=2)
        self.deliveries = deliveries or Deliveries()
        self.roster = roster or Roster()
        self.configured: Mapping[Job, ModelSpec] = MappingProxyType(
            {job: gate.spec for job, gate in self.gates.items()}
        )
        for gate in self.gates.values():
            governor.adopt(gate)
        self._prefetches = {job: self._prefetch(gate) for job, gate in self.gates.items()}

    def rung(self, job: Job) -> Rung:
        return self._gate(job).rung

    def failing(self) -> list[Job]:
        """Jobs whose engine has lost a thread; a restart of the server is the only way back."""
        return [job for job, gate in self.gates.items() if not gate.host.healthy]

    async def lease(self, job: Job, keep_alive: float | None = None) -> Lease:
        """A lease on the engine of a job for the current client; the gate reserves memory when the work begins.

        ``keep_alive``: idle seconds after which the engine steps down; None: as configured. Raises NotConfigured, Busy
        or ShuttingDown.
        """
        gate, client = self._gate(job), clients.current.get()
        gate.acquire(keep_alive, client)
        return Lease(gate, self.deliveries, self._heat_ahead, client)

    def expect(self, jobs: Sequence[Job]) -> None:
        """Fetch the model files of the first of ``jobs`` that is configured: a request for it is coming in.

        Returns at once; does nothing for an engine that is hot.
        """
        for job in jobs:
            if job in self._prefetches:
                self._prefetches[job].start()
                return

    def voices(self) -> tuple[str, ...]:
        """Voices of the speech engine, the default first."""
        return self._gate("tts").host.voices()

    def languages(self) -> tuple[str, ...]:
        """Language codes of the transcription engine; none where only the open model knows them."""
        return self._gate("asr").host.languages()

    async def preload(self, jobs: Iterable[Job]) -> dict[Job, bool]:
        """Bring engines up to hot; True for each that is hot now. Raises the first error of a load."""
        gates = [self._gate(job) for job in jobs]
        for gate in gates:
            await _loaded(gate)
        return {gate.job: gate.rung is Rung.HOT for gate in gates}

    async def evict(self, job: Job, to: Rung = Rung.COLD) -> bool:
        """Ask an engine to step down; False when a lease or its work holds it."""
        gate = self._gate(job)
        return await self._moves.run(self._evict, gate, to)

    def _evict(self, gate: Gate, to: Rung) -> bool:
        self.governor.step_down(gate, to, "requested")
        return gate.rung <= to

    async def start(self, preload: Iterable[Job] = ()) -> None:
        """Bring the engines of ``preload`` up to hot, and those that are mapped at startup to warm."""
        wanted = set(preload)
        for job, gate in self.gates.items():
            if job in wanted:
                await _loaded(gate)
            elif job in MAPPED_AT_STARTUP:
                await asyncio.to_thread(gate.map)
        if not wanted:
            await asyncio.to_thread(self.governor.release_idle_heap)

    async def drain(self, seconds: float) -> None:
        """Take no new requests. Answers under way may end within ``seconds``; then they are cut with ShuttingDown."""
        until = time.monotonic() + seconds
        for prefetch in self._prefetches.values():
            await asyncio.to_thread(prefetch.stop)
        for gate in self.gates.values():
            if not await asyncio.to_thread(gate.drain, until):
                reason = f"the server is shutting down and the answer took longer than its drain time of {seconds:g} s"
                gate.abort(ShuttingDown(reason))

    async def stop(self) -> None:
        """End the threads of all hosts and close all engines."""
        for prefetch in self._prefetches.values():
            await asyncio.to_thread(prefetch.stop)
        for gate in self.gates.values():
            await asyncio.to_thread(gate.stop)
        await asyncio.to_thread(self.roster.stop)

    def _heat_ahead(self, request: Request) -> None:
        for job in self.chains.get(kind_of(request), ()):
            self.gates[job].warm_up()

    def _prefetch(self, gate: Gate) -> Prefetch:
        return Prefetch(gate.host.prefetch_files, lambda: gate.rung is not Rung.HOT, self._room)

    def _room(self) -> int:
        """Bytes free for the page cache beside the weights in use."""
        readings = self.governor.probe.latest()
        return readings.available - readings.process.file

    def _gate(self, job: Job) -> Gate:
        try:
            return self.gates[job]
        except KeyError:
            raise NotConfigured(
                f"no {job} engine is configured on this device; add to models.toml:\n{INFO[job].how_to_add}"
            ) from None


async def _loaded(gate: Gate) -> None:
    """Wait until the engine is hot. Raises the error of the load, which others may wait for too."""
    await asyncio.shield(asyncio.wrap_future(gate.preload_in_turn()))
