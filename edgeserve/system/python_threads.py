"""Processor time of the Python threads of this process. Linux only; elsewhere nothing is known."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable

PER_THREAD = 6
"""Flags of a clock of the kernel: the time that the scheduler gave to one thread (``CPUCLOCK_PERTHREAD_MASK`` with
``CPUCLOCK_SCHED`` in include/linux/posix-timers_types.h; pthread_getcpuclockid(3) makes the same number)."""


def thread_seconds(native_id: int) -> float:
    """Processor seconds of a thread of this process. Raises OSError for one that has ended.

    No other thread gets the interpreter meanwhile, as it would while a file of /proc is read.
    """
    return time.clock_gettime((~native_id << 3) | PER_THREAD)


def threads_now() -> Iterable[int]:
    """Native ids of all Python threads."""
    return [one.native_id for one in threading.enumerate() if one.native_id is not None]


class PythonThreads:
    """Adds up the time of the Python threads that do not ask. One thread at a time asks.

    The time of a thread that ended since the last reading is lost. ``threads`` returns native ids; ``seconds`` returns
    the time of one, and raises OSError once the thread has ended; ``here`` is the thread that asks.
    """

    def __init__(
        self,
        threads: Callable[[], Iterable[int]] = threads_now,
        seconds: Callable[[int], float] = thread_seconds,
        here: Callable[[], int] = threading.get_native_id,
        *,
        known: bool = sys.platform == "linux",
    ) -> None:
        self._threads, self._seconds, self._here, self._known = threads, seconds, here, known
        self._seen: dict[int, float] = {}
        self._sum = 0.0

    def read(self) -> float:
        """Seconds so far; they never fall."""
        before, self._seen = self._seen, {}
        here = self._here()
        for one in self._threads() if self._known else ():
            try:
                spent = self._seen[one] = self._seconds(one)
            except OSError:
                continue  # it has ended
            last = before.get(one, 0.0)
            if one != here:
                self._sum += spent - last if spent >= last else spent  # a new thread may have the id of an old one
        return self._sum
