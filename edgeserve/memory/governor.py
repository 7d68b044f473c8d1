"""The only door to memory: reservations, step downs, relief of pressure, and reports.

``plan`` and ``pressure`` decide; ``admission``, ``mover`` and ``relief`` carry the decisions out.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from edgeserve.device import Allocator
from edgeserve.engine import ModelSpec, Rung
from edgeserve.memory import metal, report
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.admission import Admission
from edgeserve.memory.entry import device_mapped
from edgeserve.memory.gauge import Gauge
from edgeserve.memory.history import StepRecord
from edgeserve.memory.mover import Mover
from edgeserve.memory.peaks import Peaks
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.memory.pressure import Level
from edgeserve.memory.pressure_loop import PressureLoop
from edgeserve.memory.relief import QUIET_SECONDS, Relief
from edgeserve.memory.report import Json
from edgeserve.memory.reservations import Reservation
from edgeserve.memory.resident import Resident
from edgeserve.memory.sampler import Sampler
from edgeserve.memory.terms import NEW, Terms
from edgeserve.memory.timeline import Timeline
from edgeserve.system import heap, libraries
from edgeserve.system.accelerator import DeviceReader, Devices
from edgeserve.system.probe import Probe
from edgeserve.units import GB, MB

__all__ = ["Governor", "OpenGovernor", "Reservation", "Resident", "make_governor"]

log = logging.getLogger("edgeserve.memory")


class Governor:
    """``trim`` returns the heap's free pages; ``drop_code`` drops the libraries' pages and returns their bytes.

    ``macos``: the system's version, () elsewhere. ``end_helper``: as in ``Relief``.
    """

    def __init__(
        self,
        accounts: Accounts,
        probe: Probe,
        *,
        trim: Callable[[], None] = heap.collect,
        drop_code: Callable[[], int] = libraries.drop_pages,
        macos: tuple[int, ...] = (),
        end_helper: Callable[[], bool] = lambda: False,
    ) -> None:
        self.probe = probe
        self.accounts = accounts
        self.figures = accounts.figures
        self.gauge = Gauge(accounts, probe)
        self.sampler = Sampler(accounts, self.gauge)
        self._mover = Mover(accounts, probe)
        self._admission = Admission(accounts, probe, self._mover, trim)
        self._relief = Relief(accounts, probe, self.gauge, self._mover, self.defragment, end_helper)
        self._loop = PressureLoop(accounts, self.relieve)
        self._trim, self._drop_code, self._macos = trim, drop_code, macos
        self._limits: metal.MetalLimits | None = None
        self._defragmented_at = float("-inf")
        accounts.traffic.eased = self.wake

    def adopt(self, resident: Resident) -> None:
        """Open an account for an engine: from now on it lives inside the budget."""
        self.accounts.adopt(resident)

    def forget(self, resident: Resident) -> None:
        """Close the account of an engine that is closed, and is served no more."""
        self.accounts.forget(resident)

    def follow(self, policy: MemoryPolicy) -> None:
        """Decide by these values from now on. Requests that wait for memory and the pressure loop look again."""
        with self.accounts.changed:
            if policy == self.accounts.policy:
                return
            self.accounts.policy = policy
            self.accounts.stir()
        self._loop.wake()

    def start(self) -> None:
        """Start the readings, each with a sample behind it, and the pressure loop."""
        self.probe.start(self.sampler.sample)
        self._loop.start()

    def stop(self) -> None:
        """End both, and end every wait for memory with ShuttingDown. Blocks until the running check is over."""
        self.accounts.close()
        self._loop.join()
        self.probe.stop()

    def reserve(self, resident: Resident, terms: Terms = NEW) -> Reservation:
        """Set aside the memory for one request and the way up to hot: where it fits at once, else as ``Admission``."""
        return self.reserve_at_once(resident, terms.whole) or self._admission.reserve(self.accounts[resident.id], terms)

    def wake(self) -> None:
        """A lease or a refused body has ended, or a request is cancelled: who waits for memory looks. Any thread."""
        with self.accounts.changed:
            if self.accounts.tickets:
                self.accounts.stir()

    def reserve_at_once(self, resident: Resident, whole: bool = False) -> Reservation | None:
        """Reserve for a hot engine by the latest reading; None when the request does not fit. Never waits."""
        now, entry = self.gauge.latest(), self.accounts[resident.id]
        if now.level >= Level.HIGH and self.accounts.clock() - self._relief.relieved_at >= QUIET_SECONDS:
            self._loop.wake()
        if found := self._admission.reserve_at_once(entry, now.readings, now.budget, whole):
            self._relief.bound_states(found.entry)
        return found

    def has_room_in_place(self, resident: Resident) -> bool:
        """As ``Gauge.has_room_in_place``."""
        return self.gauge.has_room_in_place(self.accounts[resident.id])

    def reserve_if_free(self, resident: Resident) -> Reservation | None:
        """Reserve ahead of need: None unless it fits with nothing moved, saved or waited for."""
        return self._admission.reserve_if_free(self.accounts[resident.id])

    def settle(self, reservation: Reservation, measured: int | None = None) -> None:
        """The engine is hot: book its measured memory, or ``measured`` bytes, and learn them for the next start."""
        self._admission.settle(reservation, measured)
        self._relief.bound_states(reservation.entry)

    def limits(self) -> metal.MetalLimits | None:
        """Memory that a runtime with a limit (``engine_abilities.Limited``) may take now; None: no limit."""
        found = self._limits = metal.limits(self.probe.read_quick(), self._macos)
        text = "MLX may take %.1f GB (%s), keep %.1f GB of it and pin %.1f GB"
        log.info(text, found.memory / GB, found.winner, found.cache / GB, (found.wired or 0) / GB)
        return found

    def release(self, reservation: Reservation) -> None:
        """End a reservation. An engine that did not become hot returns all of it. Idempotent."""
        self._admission.reservations.release(reservation)

    def step_down(self, resident: Resident, to: Rung, reason: str) -> StepRecord | None:
        """Move an engine down and verify the memory that came back.

        None when the engine is in use, stands on ``to`` or below already, failed to move, or is served no more.
        """
        entry = self.accounts.of(resident)
        return None if entry is None else self._mover.step_down(entry, to, reason)

    def room(self, spec: ModelSpec) -> int:
        """Bytes that an engine may take when all others that are neither pinned nor at work have left. Any thread."""
        now = self.gauge.latest()
        return self.accounts.room(spec.id, now.readings, now.budget)

    def in_the_way(self, spec: ModelSpec) -> bool:
        """As ``Admission.in_the_way``. Any thread."""
        return self._admission.in_the_way(spec.id)

    @contextlib.contextmanager
    def optional_memory(self) -> Iterator[bool]:
        """A bracket around idle work that takes memory which its engine can do without, such as a saved conversation.

        Meanwhile no other engine learns its memory. Yields False when the work must not begin: from HIGH pressure
        on, while requests wait for memory, and while other engines change or answer.
        """
        with self.accounts.moving() as mark:
            yield mark is not None and not self.accounts.tickets and self.gauge.latest().level < Level.HIGH

    def opening(self, spec: ModelSpec) -> contextlib.AbstractContextManager[None]:
        """As ``Reservations.opening``."""
        return self._admission.reservations.opening(self.accounts.find(spec.id))

    def ended(self, spec: ModelSpec, code: int | None) -> None:
        """The process of an engine has ended unasked. ``code``: its exit code, negative for a signal."""
        self.timeline.note("worker_ended", spec.id, code=code)

    def outgrew(self, spec: ModelSpec) -> None:
        """The system killed an engine's process: expect more memory for the next way up, and learn it."""
        if (peak := self.accounts.outgrown(spec)) is not None:
            log.warning("%s was killed by the system; %d MB are expected from now on", spec.name, peak.total // MB)

    # Pressure

    def check(self) -> None:
        """Called while an answer is made. Raises MemoryPressure when memory stays CRITICAL after a clean-up."""
        self._relief.check()

    def relieve(self) -> None:
        """One round of the pressure loop."""
        self._relief.relieve()

    def drop_prefix_cache(self, resident: Resident) -> None:
        """Drop the prefix cache of an engine that has long been idle; nothing happens while it is in use."""
        if (entry := self.accounts.of(resident)) is not None:
            self._relief.drop_prefix_cache(entry)

    def release_idle_heap(self) -> None:
        """Called while no engine is hot: return the heap's free pages and drop the code of the runtimes."""
        self._trim()
        log.debug("no engine is hot: dropped %.1f MB of code", self._drop_code() / MB)

    def defragment(self) -> Json:
        """Return the heap's free pages and the accelerator's cache to the system."""
        self.probe.accelerator.clear_cache()
        self._trim()
        self.probe.read()
        return {"status": "defragmentation_triggered"}

    def defragment_by_hand(self) -> Json:
        """As ``defragment``, at most once in ``QUIET_SECONDS``: no other Python code runs during a collection."""
        now = self.accounts.clock()
        if now - self._defragmented_at >= QUIET_SECONDS:
            self._defragmented_at = now
            return self.defragment()
        return {"status": "defragmentation_triggered"}

    @property
    def timeline(self) -> Timeline:
        """The last half hour."""
        return self.accounts.timeline

    # Reports (shapes: docs/api/memory.md)

    def stats(self) -> Json:
        self.accounts.observe()
        now = self.gauge.situation(self.probe.read())
        found = report.stats(now, self.accounts, self.accounts.history, self._limits)
        with self.accounts.changed:
            waiting = [one.id for one in self.accounts.tickets]
        return {**found, "undelivered_mb": round(self.accounts.undelivered() / MB, 1), "waiting": waiting}

    def models(self) -> list[Json]:
        self.accounts.observe()
        now, accelerator = self.accounts.clock(), self.probe.latest().accelerator
        return [report.model(entry, now, accelerator) for entry in self.accounts]

    def evictions(self) -> list[Json]:
        return [record.as_json() for record in self.accounts.history]

    def offloaded(self) -> list[Json]:
        warm = [entry for entry in self.accounts if entry.resident.rung is Rung.WARM]
        return [report.offloaded(entry, self.accounts.wall()) for entry in warm]

    def fragmentation(self) -> Json:
        counts = self.accounts.history.counts
        return report.fragmentation(self.probe.read(), heap.usage(), counts["emergencies"], counts["stopped"])

    def health(self) -> Json:
        return report.health(self.gauge.latest())


class OpenGovernor(Governor):
    """EDGESERVE_ENABLE_MEMORY_GOVERNOR=false: admits everything and moves nothing by itself; still keeps accounts."""

    def reserve(self, resident: Resident, *_: object, **__: object) -> Reservation:
        """Reserve at once, whatever memory there is. An optional context is still cut to the room that there is."""
        entry = self.accounts[resident.id]
        self._admission.expect(entry)
        self._admission.fit_optional_memory(entry)
        with self.accounts.changed:
            return self._admission.reservations.book(entry)

    reserve_at_once = reserve_if_free = reserve

    def limits(self) -> metal.MetalLimits | None:
        """None: no runtime is limited."""
        return None

    def check(self) -> None:
        """Never stops an answer."""

    def relieve(self) -> None:
        """Moves nothing."""


def make_governor(
    policy: MemoryPolicy,
    *,
    peaks: Path | None = None,
    devices: Devices = tuple,
    allocator: Allocator | None = None,
    undelivered: Callable[[], int] = lambda: 0,
    workers: Callable[[], Iterable[int]] = tuple,
    helpers: Callable[[], Iterable[int]] = tuple,
    end_helper: Callable[[], bool] = lambda: False,
) -> Governor:
    """A governor for this machine.

    ``peaks``: the file of learned peaks; None forgets them at the end. ``devices``: accelerators of a runtime.
    ``allocator``: MLX's. ``undelivered``: bytes of answers that wait for their readers. ``workers``: pids of the
    server's other processes, and ``helpers`` those of one request each. ``end_helper``: as in ``Relief``.
    """
    accounts = Accounts(policy, Peaks(peaks), undelivered=undelivered, helpers=lambda: probe.known().process.helpers)
    reader = DeviceReader(devices, accounts.device_held, lambda: device_mapped(accounts), allocator)
    probe = Probe(override_mb=policy.override_memory_mb, accelerator=reader, workers=workers, helpers=helpers)
    kind = Governor if policy.enabled else OpenGovernor
    return kind(accounts, probe, macos=metal.macos_version(), end_helper=end_helper)
