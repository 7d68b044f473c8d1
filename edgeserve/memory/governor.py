"""The only door to memory. Decisions are made by ``plan`` and ``pressure``, carried out by ``admission`` and ``mover``;
this room brings them together, runs the pressure loop, and tells what it knows."""

from __future__ import annotations

import contextlib
import logging
import platform
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from edgeserve.engine import Allocator, Cancel, Rung
from edgeserve.errors import MemoryPressure
from edgeserve.memory import code, metal, report
from edgeserve.memory.accounts import Books, Pause
from edgeserve.memory.admission import Admission, Reservation
from edgeserve.memory.budget import Budget, budget, prefix_cache_threshold
from edgeserve.memory.entry import Resident
from edgeserve.memory.history import StepRecord
from edgeserve.memory.mover import Mover
from edgeserve.memory.peaks import Ledger
from edgeserve.memory.plan import Standing, may_step_down
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.memory.pressure import Level, level_of, relief, used_percent
from edgeserve.memory.report import Json, Situation
from edgeserve.system import heap
from edgeserve.system.accelerator import DeviceReader, Devices
from edgeserve.system.probe import Probe
from edgeserve.system.readings import Readings
from edgeserve.units import GB, MB

__all__ = ["Governor", "OpenGovernor", "Reservation", "Resident", "make_governor"]

log = logging.getLogger("edgeserve.memory")

QUIET_SECONDS = 1.0
"""A reservation under pressure wakes the pressure loop at most this often."""


class Governor:
    """``clock`` in seconds, the one that ``Resident.last_used`` is on; ``wait`` pauses on a held condition; ``wall`` in
    seconds since the epoch; ``trim`` gives the process's free heap back, ``drop_code`` its libraries' pages. ``macos``:
    the system's version, () elsewhere."""

    def __init__(
        self,
        policy: MemoryPolicy,
        probe: Probe,
        *,
        ledger: Ledger | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Pause = threading.Condition.wait,
        wall: Callable[[], float] = time.time,
        trim: Callable[[], None] = heap.trim,
        drop_code: Callable[[], int] = code.drop,
        macos: tuple[int, ...] = (),
    ) -> None:
        self.policy = policy
        self.probe = probe
        self.books = Books(policy, ledger or Ledger(), clock=clock, wait=wait, wall=wall)
        self._mover = Mover(self.books, probe)
        self._admission = Admission(self.books, probe, self._mover)
        self._trim = trim
        self._drop_code = drop_code
        self._macos = macos
        self._limits: metal.MetalLimits | None = None
        self._emergency = threading.Lock()
        self._nudge = threading.Event()
        self._relieved_at = float("-inf")
        self._last: tuple[Readings, Budget, Level] | None = None
        self._thread: threading.Thread | None = None

    def adopt(self, resident: Resident) -> None:
        """From now on this engine lives inside the budget."""
        self.books.adopt(resident)

    def count(self, undelivered: Callable[[], int]) -> None:
        """From now on these bytes of answers on their way count beside the engines."""
        self.books.undelivered = undelivered

    def start(self) -> None:
        """Start the readings and the pressure loop."""
        self.probe.start()
        self._thread = threading.Thread(target=self._loop, name="edgeserve-governor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End both, and with ShuttingDown whatever waits for memory. Blocks until the check under way is over."""
        self.books.close()
        self._nudge.set()
        if self._thread is not None:
            self._thread.join()
        self.probe.stop()

    def reserve(self, resident: Resident, cancel: Cancel | None = None) -> Reservation:
        """Set aside what the engine needs to be hot and to serve one request; at once when it is hot and it fits.

        Else blocks while others step down, while their memory comes back, and at most ``queue_seconds`` while they are
        in use. Raises DoesNotFit, Busy, ShuttingDown, and Cancelled once ``cancel`` is set.
        """
        return self.reserve_at_once(resident) or self._admission.reserve(self.books[resident.job], cancel)

    def reserve_at_once(self, resident: Resident) -> Reservation | None:
        """For an engine that is hot, by the latest reading: None unless the request fits. Never waits."""
        readings, limit, level = self._judged()
        if level >= Level.HIGH and self.books.clock() - self._relieved_at >= QUIET_SECONDS:
            self._nudge.set()
        return self._admission.reserve_at_once(self.books[resident.job], readings, limit)

    def reserve_if_free(self, resident: Resident) -> Reservation | None:
        """As ``reserve``, for what nobody waits for: None unless it fits with nothing moved, saved or waited for."""
        return self._admission.reserve_if_free(self.books[resident.job])

    def settle(self, reservation: Reservation, measured: int | None = None) -> None:
        """The engine is hot: book what it takes and learn it for the next start. ``measured`` bytes, where the caller
        knows better than the engine's own footprint."""
        self._admission.settle(reservation, measured)

    def limits(self) -> metal.MetalLimits | None:
        """How much a runtime may take that can be told (``engine.Limited``), as memory stands now; None: it may take
        what it likes."""
        found = self._limits = metal.limits(self.probe.glance(), self._macos)
        text = "MLX may take %.1f GB (%s), keep %.1f GB of it and pin %.1f GB"
        log.info(text, found.memory / GB, found.winner, found.cache / GB, (found.wired or 0) / GB)
        return found

    def release(self, reservation: Reservation) -> None:
        """The request is over; an engine that did not become hot gives its whole reservation back. Idempotent."""
        self._admission.release(reservation)

    def step_down(self, resident: Resident, to: Rung, reason: str) -> StepRecord | None:
        """Ask an engine down and verify what came back; None when it is in use, there already, or failed to go."""
        return self._mover.step_down(self.books[resident.job], to, reason)

    @contextlib.contextmanager
    def spare(self) -> Iterator[bool]:
        """While an engine takes memory that it could do without, so that nobody measures itself by it; False where it
        must not: from HIGH pressure on, and while other engines come, go or answer."""
        with self.books.moving() as mark:
            yield mark is not None and self._judged()[2] < Level.HIGH

    # Pressure

    def check(self) -> None:
        """Called while an answer is made: microseconds, until CRITICAL. Then idle engines are closed and caches
        dropped; raises MemoryPressure when that is not enough."""
        if self._judged()[2] is Level.CRITICAL:
            with self._emergency:
                self._clean_up()

    def relieve(self) -> None:
        """One round of the pressure loop: what the level asks for is moved down."""
        self._relieved_at = self.books.clock()
        self.books.observe()
        readings = self.probe.glance()
        self.books.note_overhead(readings)
        now = self._situation(readings)
        used = 1 - readings.available / readings.total if readings.total else 1.0
        if used >= prefix_cache_threshold(readings.total, self.policy):
            self._drop_prefix_caches()
        if now.level is Level.CRITICAL:
            log.error("CRITICAL memory pressure! Usage: %.1f%%. Forcing aggressive eviction.", now.percent)
        with self.books.changed:
            steps = relief(now.level, self.books.standings(), self.books.clock(), self.policy)
        if steps and now.level is not Level.CRITICAL:
            log.warning("%s memory pressure: %.1f%%. Offloading idle models.", now.level.name, now.percent)
        for step in steps:
            self._mover.step_down(self.books[step.job], step.to, "memory_pressure")

    def drop_prefix_cache(self, resident: Resident) -> None:
        """Of an engine that has long been idle; nothing happens while it is in use."""
        self._drop(self.books[resident.job].standing(busy=False, spent=frozenset()))

    def release_idle_heap(self) -> None:
        """No engine is hot: return the heap's free pages and let go of the code that nobody runs now."""
        self._trim()
        log.debug("at rest: let go of %.1f MB of code", self._drop_code() / MB)

    def defragment(self) -> Json:
        """Return the heap's free pages and the accelerator's cache to the system."""
        self.probe.accelerator.clear_cache()
        self._trim()
        self.probe.read()
        return {"status": "defragmentation_triggered"}

    def _clean_up(self) -> None:
        """Raises MemoryPressure when memory is critical even after all that may go has gone."""
        if self._level(self.probe.glance()) is not Level.CRITICAL:
            return  # another thread has just done it, or the last reading was old
        self.books.history.counts["emergencies"] += 1
        self._drop_prefix_caches()
        self.relieve()
        self.defragment()
        now = self._situation(self.probe.latest())
        if now.level is Level.CRITICAL:
            self.books.history.counts["stopped"] += 1
            raise MemoryPressure(
                f"memory ran critical while the answer was made: {now.readings.unreclaimable // MB} MB are used, "
                f"{now.percent:.0f}% of the budget of {now.budget.usable // MB} MB ({now.budget.winner}), and no idle "
                "engine is left to close. Try a shorter prompt, a smaller context, or free memory on the device",
                retry_after=self.policy.pressure_interval,
            )

    def _drop_prefix_caches(self) -> None:
        now = self.books.clock()
        idle = [one for one in self.books.standings() if may_step_down(one, now, self.policy)]
        for one in idle:
            self._drop(one)

    def _drop(self, one: Standing) -> None:
        for saving in one.savings:
            if saving.kind == "prefix_cache":
                self._mover.shed(saving)

    def _loop(self) -> None:
        for entry in self.books:  # now, so that the first request need not wait for an estimate
            if not self.books.closing:
                entry.expect(self.books.ledger)
        while True:
            self._nudge.wait(self.policy.pressure_interval)
            self._nudge.clear()
            if self.books.closing:
                return
            try:
                self.relieve()
            except Exception:
                log.exception("the pressure check failed; the next is in %g s", self.policy.pressure_interval)

    def _judged(self) -> tuple[Readings, Budget, Level]:
        """The latest reading with its budget and level, worked out once a reading: every request asks for them."""
        readings, judged = self.probe.latest(), self._last
        if judged is None or judged[0] is not readings:
            judged = self._last = (readings, budget(readings, self.policy), self._level(readings))
        return judged

    def _level(self, readings: Readings) -> Level:
        return level_of(used_percent(readings, budget(readings, self.policy)), readings, self.policy)

    def _situation(self, readings: Readings) -> Situation:
        limit = budget(readings, self.policy)
        percent = used_percent(readings, limit)
        with self.books.changed:
            booked = self.books.booked()
        return Situation(readings, limit, booked, percent, level_of(percent, readings, self.policy))

    # What is told (shapes: reference/gpu-memory-governor.md)

    def stats(self) -> Json:
        self.books.observe()
        told = report.stats(self._situation(self.probe.read()), self.books, self.books.history, self._limits)
        return {**told, "undelivered_mb": round(self.books.undelivered() / MB, 1)}

    def models(self) -> list[Json]:
        self.books.observe()
        now, accelerator = self.books.clock(), self.probe.latest().accelerator
        return [report.model(entry, now, accelerator) for entry in self.books]

    def evictions(self) -> list[Json]:
        return [record.as_json() for record in self.books.history]

    def offloaded(self) -> list[Json]:
        warm = [entry for entry in self.books if entry.resident.rung is Rung.WARM]
        return [report.offloaded(entry, self.books.wall()) for entry in warm]

    def fragmentation(self) -> Json:
        counts = self.books.history.counts
        return report.fragmentation(self.probe.read(), heap.usage(), counts["emergencies"], counts["stopped"])

    def health(self) -> Json:
        return report.health(self._situation(self.probe.latest()))


class OpenGovernor(Governor):
    """EDGESERVE_ENABLE_MEMORY_GOVERNOR=false: admits all and moves nothing by itself; still keeps the books."""

    def reserve(self, resident: Resident, cancel: Cancel | None = None) -> Reservation:
        """At once, whatever there is; a context without a size of its own is still cut to what there is."""
        entry = self.books[resident.job]
        self._admission.expect(entry)
        self._admission.fit_optional_context(entry)
        with self.books.changed:
            return self._admission.book(entry)

    def reserve_at_once(self, resident: Resident) -> Reservation | None:
        """At once, whatever there is."""
        return self.reserve(resident)

    reserve_if_free = reserve_at_once

    def limits(self) -> metal.MetalLimits | None:
        """None: nothing is limited."""
        return None

    def check(self) -> None:
        """Never stops an answer."""

    def relieve(self) -> None:
        """Moves nothing."""


def make_governor(
    policy: MemoryPolicy, *, ledger: Path | None = None, devices: Devices = tuple, allocator: Allocator | None = None
) -> Governor:
    """A governor on this machine. ``ledger``: where learned peaks are kept; None forgets them at the end. ``devices``:
    the accelerators, as a runtime tells them. ``allocator``: MLX's."""
    reader = DeviceReader(devices, mlx=allocator)
    probe = Probe(override_mb=policy.override_memory_mb, accelerator=reader)
    kind = Governor if policy.enabled else OpenGovernor
    macos = tuple(int(part) for part in platform.mac_ver()[0].split(".") if part)
    governor = kind(policy, probe, ledger=Ledger(ledger), macos=macos)
    reader.held, reader.mapped = governor.books.device_held, governor.books.device_mapped
    return governor
