"""All gates of the device, and the async side of a lease."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import cast

from edgeserve.engine import Job, ModelSpec, Prefetchable, Rung, SpeechToText, TextToSpeech
from edgeserve.errors import Cancelled, NotConfigured, ShuttingDown
from edgeserve.gate import Gate
from edgeserve.memory.governor import Governor
from edgeserve.messages import Event, Request
from edgeserve.monitor import MAPPED_AT_STARTUP
from edgeserve.prefetch import Prefetch
from edgeserve.work import Done, Work, kind_of

HOW_TO_ADD: Mapping[Job, str] = MappingProxyType(
    {
        "llm": '[llm]\nmodel = "smollm2-135m-instruct"',
        "vision": '[vision]\nmodel = "smolvlm-256m"',
        "asr": '[asr]\nmodel = "whisper-tiny.en"',
        "tts": '[tts]\nmodel = "hibari"',
        "embedding": '[embedding]\nmodel = "nomic-embed-text-v1.5"',
    }
)
"""The lines of models.toml that would add an engine."""


Box = asyncio.Queue[tuple[int, Event | Done]]


def _emitter(number: int, box: Box) -> Callable[[Event | Done], None]:
    """Puts the events of a lease's request ``number`` into its mailbox, from any thread."""
    loop = asyncio.get_running_loop()

    def emit(item: Event | Done) -> None:
        # A closed loop means that the server has ended: nobody is left to tell.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(box.put_nowait, (number, item))

    return emit


class Lease:
    """The right to use one engine until released. The engine is not moved down meanwhile."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._runs: list[Work] = []
        self._mailbox: Box | None = None
        self._released = False

    @property
    def spec(self) -> ModelSpec:
        return self._gate.spec

    async def run(self, request: Request) -> AsyncIterator[Event]:
        """Events of one request, in order. Raises EdgeserveError, at the first event or later.

        May be called several times on one lease, one after the other.
        """
        async with contextlib.aclosing(self.run_all([request])) as events:
            async for _, event in events:
                yield event

    async def run_all(
        self, requests: Sequence[Request], *, apart: bool = False
    ) -> AsyncGenerator[tuple[int, Event], None]:
        """Events of several requests, each with the number of its own; the first error ends all.

        The first one goes ahead: a prompt that all share has been read when the others begin. They run beside each
        other where the engine can, unless ``apart``, else one after the other.
        """
        # Unbounded on purpose: a slow client must not hold the engine. Its length is bounded by the requests.
        mailbox = self._mailbox = Box()
        work = [Work(one, _emitter(number, mailbox)) for number, one in enumerate(requests)]
        self._runs += work
        behind, left = deque(work), len(work)

        def start(count: int) -> None:
            for _ in range(min(count, len(behind))):
                self._gate.submit(behind.popleft())

        start(1)
        try:
            while left:
                number, item = await mailbox.get()
                if not isinstance(item, Done):
                    if not apart:
                        start(len(behind))
                    yield number, item
                elif item.error is not None:
                    raise item.error
                else:
                    left -= 1
                    start(1)
        finally:
            for one in work:
                one.cancel.set()

    async def release(self) -> None:
        """Cancel what still runs and give the engine back. Idempotent."""
        if not self._released:
            self._released = True
            for work in self._runs:
                work.cancel.set()
            if self._mailbox is not None:
                # Whoever still waits for an event of work that is queued or between two tokens need not wait on.
                self._mailbox.put_nowait((0, Done(Cancelled("the request was cancelled"))))
            self._gate.release()

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()


class Pool:
    """Every engine that the device is configured for, behind its gate.

    ``chains``: engines to heat ahead, where they fit, when a request of a kind begins.
    """

    def __init__(
        self, gates: Iterable[Gate], governor: Governor, chains: Mapping[str, Sequence[Job]] = MappingProxyType({})
    ) -> None:
        self._chains = chains
        self.gates: Mapping[Job, Gate] = MappingProxyType({gate.job: gate for gate in gates})
        self.governor = governor
        self.configured: Mapping[Job, ModelSpec] = MappingProxyType(
            {job: gate.spec for job, gate in self.gates.items()}
        )
        for gate in self.gates.values():
            governor.adopt(gate)
            gate.on_serve = self._heat_ahead
        self._prefetches = {job: self._prefetch(gate) for job, gate in self.gates.items()}

    def rung(self, job: Job) -> Rung:
        return self._gate(job).rung

    async def lease(self, job: Job, keep_alive: float | None = None) -> Lease:
        """Raises NotConfigured, Busy or ShuttingDown. Memory is reserved when the work begins.

        ``keep_alive``: seconds for which the engine keeps it afterwards; None: as configured.
        """
        gate = self._gate(job)
        gate.acquire(keep_alive)
        return Lease(gate)

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
        return await asyncio.to_thread(self._evict, gate, to)

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
            await asyncio.to_thread(self.governor.rest)

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
                f"no {job} engine is configured on this device; add to models.toml:\n{HOW_TO_ADD[job]}"
            ) from None
