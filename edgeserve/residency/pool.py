"""All gates of the device."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from edgeserve.engine import Job, ModelSpec, Prefetchable, Rung, SpeechToText, TextToSpeech
from edgeserve.errors import NotConfigured, ShuttingDown
from edgeserve.jobs import INFO
from edgeserve.memory.governor import Governor
from edgeserve.messages import Request
from edgeserve.residency.aside import Aside
from edgeserve.residency.gate import Gate
from edgeserve.residency.lease import Lease
from edgeserve.residency.mailbox import Deliveries
from edgeserve.residency.monitor import MAPPED_AT_STARTUP
from edgeserve.residency.work import kind_of
from edgeserve.system.prefetch import Prefetch


class Pool:
    """Every engine that the device is configured for, behind its gate.

    ``chains``: engines to heat ahead, where they fit, when a request of a kind begins. ``deliveries``: those that the
    governor counts.
    """

    def __init__(
        self,
        gates: Iterable[Gate],
        governor: Governor,
        chains: Mapping[str, Sequence[Job]] = MappingProxyType({}),
        deliveries: Deliveries | None = None,
    ) -> None:
        self._chains = chains
        self.gates: Mapping[Job, Gate] = MappingProxyType({gate.job: gate for gate in gates})
        self.governor = governor
        self._moves = Aside("moves of engines", threads=2)
        self.deliveries = deliveries or Deliveries()
        self.configured: Mapping[Job, ModelSpec] = MappingProxyType(
            {job: gate.spec for job, gate in self.gates.items()}
        )
        for gate in self.gates.values():
            governor.adopt(gate)
            gate.on_serve = self._heat_ahead
        self._prefetches = {job: self._prefetch(gate) for job, gate in self.gates.items()}

    def rung(self, job: Job) -> Rung:
        return self._gate(job).rung

    def failing(self) -> list[Job]:
        """Jobs whose engine has lost a thread; a restart of the server is the only way back."""
        return [job for job, gate in self.gates.items() if not gate.healthy]

    async def lease(self, job: Job, keep_alive: float | None = None) -> Lease:
        """Raises NotConfigured, Busy or ShuttingDown. Memory is reserved when the work begins.

        ``keep_alive``: seconds for which the engine keeps it afterwards; None: as configured.
        """
        gate = self._gate(job)
        gate.acquire(keep_alive)
        return Lease(gate, self.deliveries)

    def expect(self, jobs: Sequence[Job]) -> None:
        """A request for the first of these that is configured is coming in: fetch its model files ahead.

        Returns at once; does nothing for an engine that is hot.
        """
        for job in jobs:
            if job in self._prefetches:
                self._prefetches[job].start()
                return

    def voices(self) -> tuple[str, ...]:
        """Voices of the speech engine, the default first."""
        return cast(TextToSpeech, self._gate("tts").engine).voices()

    def languages(self) -> tuple[str, ...]:
        """Codes of those that the transcription engine knows; none where that is not known ahead."""
        return cast(SpeechToText, self._gate("asr").engine).languages()

    async def preload(self, jobs: Iterable[Job]) -> dict[Job, bool]:
        """Bring engines up to hot; True for each that now is. Raises what a load raises."""
        gates = [self._gate(job) for job in jobs]
        for gate in gates:
            await asyncio.wrap_future(gate.preload_in_turn())
        return {gate.job: gate.rung is Rung.HOT for gate in gates}

    async def evict(self, job: Job, to: Rung = Rung.COLD) -> bool:
        """Ask an engine down; False when a lease or its work holds it."""
        gate = self._gate(job)
        return await self._moves.run(self._evict, gate, to)

    def _evict(self, gate: Gate, to: Rung) -> bool:
        self.governor.step_down(gate, to, "requested")
        return gate.rung <= to

    async def start(self, preload: Iterable[Job] = ()) -> None:
        """Map what is mapped at startup, ending warm; bring ``preload`` up to hot."""
        wanted = set(preload)
        for job, gate in self.gates.items():
            if job in wanted:
                await asyncio.wrap_future(gate.preload_in_turn())
            elif job in MAPPED_AT_STARTUP:
                await asyncio.to_thread(gate.map)
        if not wanted:
            await asyncio.to_thread(self.governor.release_idle_heap)

    async def drain(self, seconds: float) -> None:
        """Take no new requests, let the ones under way end, and cut those that need longer, telling them why."""
        until = time.monotonic() + seconds
        for prefetch in self._prefetches.values():
            await asyncio.to_thread(prefetch.stop)
        for gate in self.gates.values():
            if not await asyncio.to_thread(gate.drain, until):
                reason = f"the server is shutting down and the answer took longer than its drain time of {seconds:g} s"
                gate.abort(ShuttingDown(reason))

    async def stop(self) -> None:
        """End all workers and close all engines."""
        for prefetch in self._prefetches.values():
            await asyncio.to_thread(prefetch.stop)
        for gate in self.gates.values():
            await asyncio.to_thread(gate.stop)

    def _heat_ahead(self, request: Request) -> None:
        for job in self._chains.get(kind_of(request), ()):
            self.gates[job].warm_up()

    def _prefetch(self, gate: Gate) -> Prefetch:
        engine = gate.engine
        files = engine.prefetch_files if isinstance(engine, Prefetchable) else gate.spec.files.values
        return Prefetch(files, lambda: gate.rung is not Rung.HOT, self._room)

    def _room(self) -> int:
        """Bytes free for the page cache beside the weights that are in use."""
        readings = self.governor.probe.latest()
        return readings.available - readings.process.file

    def _gate(self, job: Job) -> Gate:
        try:
            return self.gates[job]
        except KeyError:
            raise NotConfigured(
                f"no {job} engine is configured on this device; add to models.toml:\n{INFO[job].how_to_add}"
            ) from None
