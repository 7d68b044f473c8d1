"""The idle monitor: one thread that asks engines to step down when nobody has used them for a while.

Hot engines fall to warm after ``warm_after`` seconds, lazy ones to cold after ``idle_timeout``; those mapped at
startup stop at warm (DESIGN: the residency ladder) and drop their prefix caches then. A request may set one time of its
own for both: its keep_alive. When no engine is hot any more, the process as a whole is put to rest.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgeserve.engine import Job, Rung
from edgeserve.jobs import INFO
from edgeserve.memory.governor import Governor
from edgeserve.residency.gate import Gate

log = logging.getLogger("edgeserve.monitor")

MAPPED_AT_STARTUP: frozenset[Job] = frozenset(job for job, one in INFO.items() if one.mapped)
"""Jobs whose engines are opened at startup and never closed for being idle."""


REST_EVERY = 5.0
"""Seconds: looking through all mappings takes tens of milliseconds, too long for engines that come and go."""


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """All in seconds."""

    warm_after: float = 60.0
    idle_timeout: float = 300.0
    check_interval: float = 30.0


def rung_when_idle(job: Job, rung: Rung, idle: float, policy: IdlePolicy, keep_alive: float | None = None) -> Rung:
    """The rung on which an engine idle for ``idle`` seconds should stand; never above ``rung``.

    ``keep_alive`` seconds, where its last request gave any, are in place of the policy's; all goes at once after them.
    """
    if keep_alive is not None:
        lowest = Rung.WARM if job in MAPPED_AT_STARTUP else Rung.COLD
        return min(rung, lowest) if idle >= keep_alive else rung
    if idle >= policy.idle_timeout and job not in MAPPED_AT_STARTUP:
        return Rung.COLD
    if idle >= min(policy.warm_after, policy.idle_timeout):
        return min(rung, Rung.WARM)
    return rung


class Monitor:
    """``start`` and ``stop`` bracket the thread; ``check`` is one round of it."""

    def __init__(
        self,
        gates: Iterable[Gate],
        governor: Governor,
        policy: IdlePolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gates = tuple(gates)
        self._governor = governor
        self._policy = policy
        self._clock = clock
        self._nudge = threading.Event()
        self._stopping = False
        self._resting_on: tuple[Rung, ...] | None = None
        self._rested_at = -REST_EVERY
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        for gate in self._gates:
            gate.on_idle = self._nudge.set
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
        for gate in self._gates:
            try:
                self._look_at(gate)
            except Exception:
                log.exception("%s failed to step down; the next try is in %g s", gate.spec.name, self.pause())
        self._rest()

    def _look_at(self, gate: Gate) -> None:
        idle, keep_alive = self._clock() - gate.last_used, gate.keep_alive
        to = rung_when_idle(gate.job, gate.rung, idle, self._policy, keep_alive)
        if to < gate.rung and not gate.pinned and not gate.leases:
            self._governor.step_down(gate, to, "idle" if keep_alive is None else "keep_alive")
        all_goes = self._policy.idle_timeout if keep_alive is None else keep_alive
        if idle >= all_goes and not gate.pinned and not gate.leases:
            self._governor.drop_prefix_cache(gate)

    def _rest(self) -> None:
        """Once no engine is hot, and again when one has gone further down since."""
        rungs = tuple(gate.rung for gate in self._gates)
        if Rung.HOT in rungs or any(gate.leases for gate in self._gates):
            self._resting_on = None
        elif rungs != self._resting_on and self._clock() - self._rested_at >= REST_EVERY:
            self._governor.release_idle_heap()
            self._resting_on, self._rested_at = rungs, self._clock()

    def pause(self) -> float:
        """Seconds until the next round: the interval, or less when a keep_alive ends before."""
        now, times = self._clock(), ((gate.last_used, gate.keep_alive) for gate in self._gates)
        ends = (last_used + keep_alive - now for last_used, keep_alive in times if keep_alive is not None)
        return min([self._policy.check_interval, *(left for left in ends if left > 0)])

    def _loop(self) -> None:
        while True:
            self._nudge.wait(self.pause())
            self._nudge.clear()
            if self._stopping:
                return
            try:
                self.check()
            except Exception:
                log.exception("the idle check failed; the next one is in %g s", self._policy.check_interval)
