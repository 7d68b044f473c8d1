"""The idle monitor: one thread that asks engines to step down when nobody has used them for a while.

Hot engines fall to warm after ``warm_after`` seconds, lazy ones to cold after ``idle_timeout``; those mapped at
startup stop at warm (DESIGN: the residency ladder).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgeserve.engine import Job, Rung
from edgeserve.gate import Gate
from edgeserve.memory.governor import Governor

log = logging.getLogger("edgeserve.monitor")

MAPPED_AT_STARTUP: frozenset[Job] = frozenset({"llm", "vision"})
"""Jobs whose engines are opened at startup and never closed for being idle."""


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """All in seconds."""

    warm_after: float = 60.0
    idle_timeout: float = 300.0
    check_interval: float = 30.0


def rung_when_idle(job: Job, rung: Rung, idle: float, policy: IdlePolicy) -> Rung:
    """The rung on which an engine idle for ``idle`` seconds should stand; never above ``rung``."""
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
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop, name="edgeserve-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Blocks until the round under way is over."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        for gate in self._gates:
            idle = self._clock() - gate.last_used
            to = rung_when_idle(gate.job, gate.rung, idle, self._policy)
            if to < gate.rung and not gate.pinned and not gate.leases:
                self._governor.step_down(gate, to, "idle")

    def _loop(self) -> None:
        while not self._stopped.wait(self._policy.check_interval):
            try:
                self.check()
            except Exception:
                log.exception("the idle check failed; the next one is in %g s", self._policy.check_interval)
