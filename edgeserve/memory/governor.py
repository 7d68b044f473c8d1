"""The only door to memory: budget, reserve, settle, release, verified steps down, history, the pressure loop.

Decisions are made by ``plan``; this room reads, keeps the books and carries them out. The books' lock is never held
while an engine is moved or while memory is waited for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edgeserve.engine import Footprint, Job, ModelSpec, Rung
from edgeserve.errors import DoesNotFit, MemoryPressure
from edgeserve.memory import plan
from edgeserve.memory.history import History, StepRecord
from edgeserve.memory.plan import Budget, Pressure, Standing
from edgeserve.memory.policy import GB, MB, MemoryPolicy
from edgeserve.memory.probe import Probe, Readings, trim

log = logging.getLogger("edgeserve.memory")

SWITCH_BYTES: dict[Job, int] = {"vision": 20 * GB, "asr": 10 * GB, "tts": 10 * GB}
"""What a switch waits for at most, by kind of model (reference/vision-threshold-and-switch-gate.md)."""
VERIFIED_SHARE = 0.90
"""A step down that returns less than this share of what was expected is warned about."""
ROUNDS = 3
"""How often a reservation plans anew when a victim was taken into use meanwhile."""


class Resident(Protocol):
    """What the governor knows of an engine; the gate is one."""

    last_used: float
    pinned: bool

    @property
    def job(self) -> Job: ...
    @property
    def spec(self) -> ModelSpec: ...
    @property
    def rung(self) -> Rung: ...
    @property
    def leases(self) -> int: ...
    def estimate(self) -> Footprint: ...
    def footprint(self) -> Footprint: ...
    def step_down(self, to: Rung) -> bool: ...


@dataclass(frozen=True, slots=True)
class Reservation:
    """Bytes set aside for one engine to go up the ladder and serve; ``loading`` when it was not hot yet."""

    resident: Resident
    bytes: int
    loading: bool


class Governor:
    """``clock`` and ``wait`` in seconds; ``wait(seconds)`` returns True when the governor is stopping."""

    def __init__(
        self,
        policy: MemoryPolicy,
        probe: Probe,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.policy = policy
        self.probe = probe
        self.history = History()
        self._clock = clock
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._lock = threading.Lock()
        self._residents: dict[Job, Resident] = {}
        self._books: dict[Job, int] = {}
        self._uses: dict[Job, int] = {}
        self._thread: threading.Thread | None = None

    def adopt(self, resident: Resident) -> None:
        """From now on this engine lives inside the budget."""
        self._residents[resident.job] = resident
        self._books[resident.job] = 0
        self._uses[resident.job] = 0

    def start(self) -> None:
        """Start the readings and the pressure loop."""
        self.probe.start()
        self._thread = threading.Thread(target=self._loop, name="edgeserve-governor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Blocks until the check under way is over."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self.probe.stop()

    # Reserving

    def reserve(self, resident: Resident) -> Reservation:
        """Set aside what the engine needs to be hot, moving others down if it must; at once when it is hot.

        Blocks while others step down and their memory comes back. Raises DoesNotFit.
        """
        job = resident.job
        need = resident.estimate().total
        with self._lock:
            self._uses[job] += 1
            if resident.rung is Rung.HOT or not self.policy.enabled:
                self._books[job] = max(self._books[job], need)
                return Reservation(resident, need, loading=resident.rung is not Rung.HOT)
        self._check_size(resident)
        for _ in range(ROUNDS):
            readings = self.probe.read()
            with self._lock:
                limit = self._budget(readings)
                booked = self._booked(except_for=job)
                decision = plan.admit(need, limit.bytes, booked, self._standings(except_for=job), self.policy)
                if decision.fits and not decision.steps:
                    self._books[job] = need
                    return Reservation(resident, need, loading=True)
            if not decision.fits:
                break
            for step in decision.steps:
                self.step_down(self._residents[step.job], step.to, "memory_pressure")
            self._await_release(resident, need)
        raise self._refusal(resident, need, limit, decision)

    def settle(self, reservation: Reservation) -> None:
        """The engine is hot: book what it really takes, and what a request may add."""
        if reservation.loading:
            actual = reservation.resident.footprint()
            request = reservation.resident.estimate().per_request
            with self._lock:
                self._books[reservation.resident.job] = (
                    actual.mapped + actual.private + max(actual.per_request, request)
                )

    def release(self, reservation: Reservation) -> None:
        """The request is over. An engine that did not become hot gives its reservation back."""
        resident = reservation.resident
        if resident.rung is not Rung.HOT:
            with self._lock:
                self._books[resident.job] = resident.footprint().total

    # Moving down

    def step_down(self, resident: Resident, to: Rung, reason: str) -> StepRecord | None:
        """Ask an engine down and verify what came back; None when it is in use or already there."""
        before = resident.rung
        if before <= to:
            return None
        expected = resident.footprint().total
        held = self.probe.read().pss
        if not resident.step_down(to):
            return None
        freed = max(0, held - self.probe.read().pss)
        remaining = resident.footprint().total
        expected = max(0, expected - remaining)
        with self._lock:
            self._books[resident.job] = remaining
        record = StepRecord(
            resident.job, resident.spec.name, reason, before, resident.rung, expected, freed, time.time()
        )
        self.history.add(record)
        text = "%s: %s to %s (%s), %.1f MB came back of %.1f expected"
        level = logging.WARNING if freed < VERIFIED_SHARE * expected else logging.INFO
        log.log(level, text, record.model, before.name, record.after.name, reason, freed / MB, expected / MB)
        return record

    def check(self) -> None:
        """Called while an answer is made: at CRITICAL closes idle engines; raises MemoryPressure if still CRITICAL."""
        if not self.policy.enabled or self._level(self.probe.latest()) < Pressure.CRITICAL:
            return
        self.relieve()
        trim()
        readings = self.probe.read()
        if self._level(readings) is Pressure.CRITICAL:
            limit = self._budget(readings)
            raise MemoryPressure(
                f"memory ran critical while the answer was made: {readings.pss // MB} MB are used of a budget of "
                f"{limit.bytes // MB} MB ({limit.winner}), and no idle engine is left to release; try a shorter "
                "prompt, a smaller context, or free memory on the device",
                retry_after=self.policy.pressure_interval,
            )

    def relieve(self) -> None:
        """One round of the pressure loop: what the level asks for is moved down."""
        level = self._level(self.probe.read())
        with self._lock:
            steps = plan.relieve(level, self._standings(), self.policy)
        if level > Pressure.LOW and steps:
            log.warning("%s memory pressure: moving %d idle engines down", level.name, len(steps))
        for step in steps:
            self.step_down(self._residents[step.job], step.to, f"pressure_{level.name.lower()}")

    def defragment(self) -> dict[str, object]:
        """Collect garbage and return the heap's free pages."""
        before = self.probe.read().pss
        trim()
        freed = max(0, before - self.probe.read().pss)
        return {"status": "defragmentation_triggered", "memory_freed_mb": round(freed / MB, 1)}

    # What is told (shapes: reference/gpu-memory-governor.md)

    def stats(self) -> dict[str, object]:
        readings = self.probe.read()
        with self._lock:
            limit = self._budget(readings)
            booked = self._booked()
            rungs = [one.rung for one in self._residents.values()]
            warm = sum(self._books[job] for job, one in self._residents.items() if one.rung is Rung.WARM)
        counts = self.history.counts
        return {
            "cuda_available": False,
            "accelerator": None,
            "total_mb": readings.total // MB,
            "free_mb": readings.available // MB,
            "used_mb": (readings.total - readings.available) // MB,
            "used_percent": _percent(readings.pss, limit.bytes),
            "allocated_mb": booked // MB,
            "budget_total_mb": readings.total // MB,
            "budget_usable_mb": limit.bytes // MB,
            "budget_winner": limit.winner,
            "budget_candidates_mb": {name: value // MB for name, value in limit.candidates.items()},
            "cpu_budget_total_mb": readings.total // MB,
            "cpu_budget_usable_mb": int(readings.total * self.policy.warm_max_percent) // MB,
            "cpu_used_mb": warm // MB,
            "pss_anon_mb": round(readings.pss_anon / MB, 1),
            "pss_file_mb": round(readings.pss_file / MB, 1),
            "models_loaded": rungs.count(Rung.HOT),
            "models_offloaded": rungs.count(Rung.WARM),
            "pressure_level": self._level(readings).name,
            "total_evictions": sum(counts.values()),
            "total_offloads": counts["offloaded"],
            "total_restorations": 0,
            "total_unloads": counts["unloaded"],
        }

    def models(self) -> list[dict[str, object]]:
        now = self._clock()
        return [
            {
                "model_name": one.spec.name,
                "model_type": job,
                "quantization": None,
                "location": {Rung.HOT: "cpu", Rung.WARM: "mapped", Rung.COLD: "disk"}[one.rung],
                "rung": one.rung.name.lower(),
                "memory_mb": round(one.footprint().total / MB, 1),
                "idle_seconds": round(max(0.0, now - one.last_used), 1),
                "use_count": self._uses[job],
                "leases": one.leases,
            }
            for job, one in self._residents.items()
        ]

    def evictions(self) -> list[dict[str, object]]:
        return [record.as_json() for record in self.history]

    def offloaded(self) -> list[dict[str, object]]:
        latest = {record.job: record for record in self.history}
        return [
            {
                "model_key": f"{job}:{one.spec.name}",
                "original_device": "cpu",
                "offload_time": latest[job].timestamp if job in latest else None,
                "seconds_offloaded": round(time.time() - latest[job].timestamp, 1) if job in latest else None,
            }
            for job, one in self._residents.items()
            if one.rung is Rung.WARM
        ]

    def fragmentation(self) -> dict[str, object]:
        readings = self.probe.read()
        with self._lock:
            booked = self._booked()
        spare = max(0, readings.pss - booked)
        return {
            "cuda_available": False,
            "accelerator": None,
            "allocated_mb": booked // MB,
            "reserved_mb": readings.pss // MB,
            "fragmentation_mb": spare // MB,
            "fragmentation_percent": _percent(spare, readings.pss),
            "num_alloc_retries": 0,
            "num_ooms": 0,
        }

    def health(self) -> dict[str, object]:
        readings = self.probe.read()
        level = self._level(readings)
        messages = {
            Pressure.LOW: "Memory usage normal",
            Pressure.MODERATE: "Memory usage moderate: engines idle for long are parked",
            Pressure.HIGH: "Memory usage high: idle engines are parked",
            Pressure.CRITICAL: "Memory usage critical: all idle engines are closed",
        }
        return {
            "healthy": level is not Pressure.CRITICAL,
            "pressure": level.name,
            "used_percent": _percent(readings.pss, self._budget(readings).bytes),
            "message": messages[level],
        }

    # Helpers

    def _budget(self, readings: Readings) -> Budget:
        return plan.budget(readings, readings.pss, self.policy)

    def _level(self, readings: Readings) -> Pressure:
        return plan.pressure(readings.pss, self._budget(readings).bytes)

    def _booked(self, except_for: Job | None = None) -> int:
        return sum(bytes_ for job, bytes_ in self._books.items() if job != except_for)

    def _standings(self, except_for: Job | None = None) -> list[Standing]:
        now = self._clock()
        return [
            Standing(job, one.rung, (0, 0, self._books[job]), one.leases, now - one.last_used, one.pinned)
            for job, one in self._residents.items()
            if job != except_for
        ]

    def _check_size(self, resident: Resident) -> None:
        """The 70% rule (reference/vision-threshold-and-switch-gate.md): vision is refused, text is warned about."""
        size, total = resident.spec.size_bytes, self.probe.latest().total
        if not plan.too_large(resident.job, size, total, self.policy):
            return
        share = f"{self.policy.vision_threshold:.0%}"
        if resident.job == "vision":
            raise DoesNotFit(
                f"Model size ({size / GB:.1f} GB) exceeds {share} of system memory ({total / GB:.1f} GB). Vision "
                "models crash with Metal OOM due to Vision Encoder overhead. Aborting."
            )
        log.warning(
            "Model size %.1f GB exceeds %s of %.1f GB system memory. Expect extreme slowness due to swapping.",
            size / GB,
            share,
            total / GB,
        )

    def _await_release(self, resident: Resident, need: int) -> None:
        """The switch gate: released memory may come back late, so poll for it before the next load."""
        wanted = min(SWITCH_BYTES.get(resident.job, need), need)
        deadline = self._clock() + self.policy.switch_timeout
        while (available := self.probe.read().available) < wanted:
            if self._clock() >= deadline or self._wait(self.policy.switch_interval):
                text = "%s needs %.1f GB; %.1f GB are available %.0f s after others were released; going on"
                log.warning(text, resident.spec.name, wanted / GB, available / GB, self.policy.switch_timeout)
                return

    def _refusal(self, resident: Resident, need: int, limit: Budget, decision: plan.Decision) -> DoesNotFit:
        job = resident.job
        fits = max(0, decision.available + decision.evictable) // MB
        return DoesNotFit(
            f"{resident.spec.name} needs {need // MB} MB; {max(0, decision.available) // MB} MB are available of a "
            f"budget of {limit.bytes // MB} MB ({limit.winner}), and evicting idle engines would add "
            f"{decision.evictable // MB} MB; choose a model or context for [{job}] that needs at most {fits} MB, or "
            "free memory on the device",
            retry_after=self.policy.pressure_interval,
        )

    def _loop(self) -> None:
        while not self._stopped.wait(self.policy.pressure_interval):
            if not self.policy.enabled:
                continue
            try:
                self.relieve()
            except Exception:
                log.exception("the pressure check failed; the next is in %g s", self.policy.pressure_interval)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 100.0
