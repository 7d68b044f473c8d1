"""A core for the thread that calls a runtime, apart from those of the runtime's own threads.

A system may wake a thread on the core of the thread that wakes it, though another core is idle. Virtual machines of
KVM do so after a pause. Threads that sleep after each part of a run then take turns on that core, and the system sees
no load to move (docs/decisions/0027-threads.md). A thread inherits its cores from the thread that starts it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterator

from edgeserve.system import cores, libc


def own(threads: int) -> int | None:
    """Number of the core for the thread that calls so many threads, itself included: the last fast core.

    None where no thread is left to move or no core to leave free, outside Linux, and where a sandbox refuses moves.
    """
    if sys.platform != "linux" or not 1 < threads <= len(cores.allowed()):
        return None
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except OSError:
        return None
    return max(cores.fast_ones())


@contextlib.contextmanager
def kept_from(core: int | None) -> Iterator[None]:
    """Threads that this thread starts meanwhile use every core but this one. None changes nothing."""
    if core is None:
        yield
        return
    before = frozenset(os.sched_getaffinity(0))
    _allow(before - {core} or before)
    try:
        yield
    finally:
        _allow(before)


def go(core: int | None, *, away: bool = False) -> None:
    """Move this thread to a core, or away from it, as far as it may. The system may move it on at any time."""
    if core is None:
        return
    before = frozenset(os.sched_getaffinity(0))
    wanted = before - {core} if away else before & {core}
    if wanted and libc.library().sched_getcpu() not in wanted:
        _allow(wanted)
        _allow(before)


def _allow(wanted: Collection[int]) -> None:
    """Let this thread use these cores alone, unless the system has just taken all of them from the process."""
    with contextlib.suppress(OSError):  # a place is worth no answer
        os.sched_setaffinity(0, wanted)
