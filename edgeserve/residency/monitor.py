"""The idle monitor: one thread that asks engines to step down when nobody has used them for a while.

- After ``warm_after`` seconds a hot engine falls to warm.
- After ``idle_timeout`` seconds an engine falls to cold. Engines that are mapped at startup stay warm, and drop their
  prefix caches.
- A request may replace both times by one: its keep_alive.
- When no engine is hot any more, the process returns the free memory of its heap and drops unused code.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung
from edgeserve.jobs import INFO, Job
from edgeserve.memory.governor import Governor
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import Host

log = logging.getLogger("edgeserve.monitor")

MAPPED_AT_STARTUP: frozenset[Job] = frozenset(job for job, one in INFO.items() if one.mapped)
"""Jobs whose engines are opened at startup and never closed for being idle; see ``mapped_at_start``."""

RETURN_EVERY = 5.0
"""Seconds between two returns of the heap: reading all mappings takes tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """The times of the configuration, in seconds."""

    warm_after: float = 60.0
    idle_timeout: float = 300.0
    check_interval: float = 30.0


def rung_when_idle(job: Job, rung: Rung, idle: float, policy: IdlePolicy, keep_alive: float | None = None) -> Rung:
    """The rung for an engine that has been idle for ``idle`` seconds; never above ``rung``.

    ``keep_alive``: seconds that the last request asked for, in place of both times of the policy.
    """
    if keep_alive is not None:
        lowest = Rung.WARM if job in MAPPED_AT_STARTUP else Rung.COLD
        return min(rung, lowest) if idle >= keep_alive else rung
    if idle >= policy.idle_timeout and job not in MAPPED_AT_STARTUP:
        return Rung.COLD
    if idle >= min(policy.warm_after, policy.idle_timeout):
        return min(rung, Rung.WARM)
    return rung


def mapped_at_start(hosts: Iterable[Host]) -> set[str]:
    """Ids of the models to open at startup.

    A second worker for one file is left out, and starts with its first request (docs/decisions/0019-hosts.md). Engines
    in the serving process share the mapped file.
    """
    found: dict[str, Path | None] = {}
    for one in hosts:
        file = one.spec.files.get("model")
        second = file is not None and file in found.values() and one.report["isolation"] == "process"
        if one.spec.job in MAPPED_AT_STARTUP and not second:
            found[one.spec.id] = file
    return set(found)


class Monitor:
    """``start`` and ``stop`` bracket the thread; ``check`` is one round. ``gates``: those of now. Setting
    ``nudge`` begins a round at once. ``policy`` may be replaced at any time. ``clock`` in seconds."""

    def __init__(
        self,
        gates: Callable[[], Iterable[Gate]],
        governor: Governor,
        policy: IdlePolicy,
        nudge: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gates = gates
        self._governor = governor
        self.policy = policy
        self._clock = clock
        self._nudge = nudge
        self._stopping = False
        self._returned_on: tuple[Rung, ...] | None = None
        self._returned_at = -RETURN_EVERY
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop, name="edgeserve-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Blocks until the round under way is over."""
        self._stopping = True
        self._nudge.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """One round. An engine that fails to step down does not keep the others up."""
        for gate in self._gates():
            try:
                self._look_at(gate)
            except Exception:
                log.exception("%s failed to step down; the next try is in %g s", gate.spec.name, self.pause())
        self._return_heap()

    def _look_at(self, gate: Gate) -> None:
        idle, keep_alive = self._clock() - gate.last_used, gate.keep_alive
        to = rung_when_idle(gate.spec.job, gate.rung, idle, self.policy, keep_alive)
        if to < gate.rung and not gate.pinned and not gate.leases:
            self._governor.step_down(gate, to, "idle" if keep_alive is None else "keep_alive")
        all_goes = self.policy.idle_timeout if keep_alive is None else keep_alive
        if idle >= all_goes and not gate.pinned and not gate.leases:
            self._governor.drop_prefix_cache(gate)

    def _return_heap(self) -> None:
        """Return the heap when no engine is hot, and again after each further step down."""
        rungs = tuple(gate.rung for gate in self._gates())
        if Rung.HOT in rungs or any(gate.leases for gate in self._gates()):
            self._returned_on = None
        elif rungs != self._returned_on and self._clock() - self._returned_at >= RETURN_EVERY:
            self._governor.release_idle_heap()
            self._returned_on, self._returned_at = rungs, self._clock()

    def pause(self) -> float:
        """Seconds until the next round: the interval, or less when a keep_alive ends before."""
        now, times = self._clock(), ((gate.last_used, gate.keep_alive) for gate in self._gates())
        ends = (last_used + keep_alive - now for last_used, keep_alive in times if keep_alive is not None)
        return min([self.policy.check_interval, *(left for left in ends if left > 0)])

    def _loop(self) -> None:
        while True:
            self._nudge.wait(self.pause())
            self._nudge.clear()
            if self._stopping:
                return
            try:
                self.check()
            except Exception:
                log.exception("the idle check failed; the next one is in %g s", self.policy.check_interval)
