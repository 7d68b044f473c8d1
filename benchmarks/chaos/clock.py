"""A program whose wall clock jumps: at SIGUSR2 it reads how many seconds it goes wrong from now on.

python -m benchmarks.chaos.clock MODULE ARGUMENTS...

The file of EDGESERVE_CHAOS_CLOCK holds the seconds. The system's own clock stays right.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from pathlib import Path

VARIABLE = "EDGESERVE_CHAOS_CLOCK"


class Clock:
    """Stands for ``time.time`` and ``time.time_ns``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._time, self._time_ns = time.time, time.time_ns
        self._wrong = 0

    def time(self) -> float:
        return self._time() + self._wrong

    def time_ns(self) -> int:
        return self._time_ns() + self._wrong * 1_000_000_000

    def set(self, *ignored: object) -> None:
        self._wrong = int(self._file.read_text() or 0)


def main() -> None:
    clock = Clock(Path(os.environ[VARIABLE]))
    time.time, time.time_ns = clock.time, clock.time_ns
    signal.signal(signal.SIGUSR2, clock.set)
    module = sys.argv[1]
    sys.argv = sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
