"""The load that others put on the cores of this process. Linux only; elsewhere nothing is known.

Others are other processes, and the Python threads of this one that do not ask: the event loop, or the reading of a
large body. A runtime has threads of its own, which Python does not know.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.system import cores
from edgeserve.system.python_threads import PythonThreads

STAT = Path("/proc/stat")
USER, NICE, SYSTEM, IRQ, SOFTIRQ = 0, 1, 2, 5, 6
"""Columns of a processor's row in /proc/stat (proc_stat(5)). Time stolen by other virtual machines is none of them:
fewer threads would not bring it back."""
SHORTEST = 0.1
"""Seconds of a measurement at least: the kernel counts in steps of 10 ms."""
LONG = 1.0
"""Seconds after which a measurement describes the past. Load that does not run now counts as gone."""
PAUSE = 0.5
"""Cores' worth of own work in a long measurement; with less, this process has rested."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: when they were read, processor time of all on these cores, and that of the thread that asks.

    ``own`` includes the threads of runtimes in this process, ``python`` is the time of its other Python threads.

    ``running``: other threads of the whole machine that have a core at this moment, or wait for one.
    """

    at: float
    everyone: float
    own: float
    running: int = 0
    python: float = 0.0


def parse_stat(text: str, wanted: frozenset[int], *, nice: bool, tick: float) -> float | None:
    """Busy seconds of these processors together since the system started; None where it lists none of them.

    ``nice``: count processes of lower priority. ``tick`` in seconds.
    """
    columns = (USER, SYSTEM, IRQ, SOFTIRQ, *((NICE,) if nice else ()))
    rows = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    found = [row[1:] for row in rows if row[0][3:].isdigit() and int(row[0][3:]) in wanted]
    return tick * sum(int(row[at]) for row in found for at in columns) if found else None


def parse_running(text: str) -> int:
    """Threads of the machine that run or could, besides the one that asks."""
    found = next((line.split()[1] for line in text.splitlines() if line.startswith("procs_running ")), "1")
    return max(0, int(found) - 1)


def mean_between(before: Times, after: Times) -> float:
    """Cores' worth of load by others between two readings, in the mean."""
    seconds = after.at - before.at
    others = (after.everyone - before.everyone) - (after.own - before.own)
    return max(0.0, others) / seconds if seconds > 0 else 0.0


def others_between(before: Times, after: Times) -> float | None:
    """Cores' worth of load by others between two readings; after a long time at most what runs now.

    None after a pause at whose end others run: who passes a request on to this process runs then, too.
    """
    seconds, load = after.at - before.at, mean_between(before, after)
    if seconds <= LONG:
        return load
    rested = after.own - before.own < PAUSE * seconds
    return None if rested and after.running else min(load, after.running)


class Neighbours:
    """The load of others since the last ``read``. One thread at a time.

    ``clock`` in seconds. ``process`` and ``python``: processor seconds of this process, and of its other Python
    threads.
    Processes of lower priority (``nice``) give way, so they do not count, unless this process has a lower one itself.
    """

    def __init__(
        self,
        stat: Path = STAT,
        clock: Callable[[], float] = time.monotonic,
        process: Callable[[], float] = time.process_time,
        python: Callable[[], float] | None = None,
    ) -> None:
        self._stat = stat
        self._clock = clock
        self._process = process
        self._python = python or PythonThreads().read
        self.python = 0.0
        """Cores' worth of load by Python threads of this process at the last reading."""
        self._last = self._now()

    @property
    def known(self) -> bool:
        """Whether this system has the counters."""
        return self._last is not None

    def read(self) -> float | None:
        """Cores' worth of load.

        None a moment after the last reading, where ``others_between`` has none, and on a system without these counters.
        """
        last, now = self._last, self._now()
        if last is None or now is None or now.at - last.at < SHORTEST:
            return None
        self._last = now
        self.python = (now.python - last.python) / (now.at - last.at)
        return others_between(last, now)

    def past(self) -> float:
        """Cores' worth of load since the last reading in the mean, whatever runs now; 0 without counters."""
        last, self._last = self._last, self._now()
        return 0.0 if last is None or self._last is None else mean_between(last, self._last)

    def _now(self) -> Times | None:
        try:
            text = self._stat.read_text(encoding="ascii")
        except OSError:  # another system, or a sandbox without the file: the load stays unknown
            return None
        wanted = frozenset(cores.allowed())
        nice = os.getpriority(os.PRIO_PROCESS, 0) > 0
        busy = parse_stat(text, wanted, nice=nice, tick=1 / os.sysconf("SC_CLK_TCK"))
        if busy is None:
            return None
        python = self._python()
        return Times(self._clock(), busy, self._process() - python, parse_running(text), python)
