"""The deadline of a call of llama.cpp that decodes a few tokens.

The number of threads is chosen before a call. Another program or a Python thread may take a core during the call.
Then its threads wait for each other, half a millisecond and more after each operation, and a call of 8 ms took a
second. Such a call ends early, and its tokens are decoded anew with fewer threads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from edgeserve.engines.llama.pace import Pace
from edgeserve.engines.llama.runtime import error_details
from edgeserve.engines.llama.threads import Threads

log = logging.getLogger("edgeserve.llama")

DECODED, ABORTED = 0, 2
"""Codes of llama_decode. After ABORTED llama.cpp has removed the tokens of the call from the KV cache."""
FEW = 32
"""Tokens of a call with a deadline at most. A call that reads a prompt has longer operations, and loses less by threads
that wait for each other than by a second try."""
LEAST = 0.1
"""Seconds of a call at least before it ends early."""
TIMES = 2
"""A call may take so many times as long as those of its size mostly do."""


class Timer(Protocol):
    """An ``Alarm``."""

    def set(self, seconds: float) -> None: ...

    def clear(self) -> None: ...


class Deadline:
    """One thread at a time. ``clock`` in seconds."""

    def __init__(self, alarm: Timer, threads: Threads, clock: Callable[[], float] = time.perf_counter) -> None:
        self._alarm = alarm
        self._threads = threads
        self._clock = clock
        self._pace = Pace()

    def keep(self, tokens: int, call: Callable[[], int]) -> int:
        """The code of a call of so many tokens, repeated with fewer threads as long as it takes far too long."""
        if tokens > FEW:
            return call()
        code = ABORTED
        while code == ABORTED:
            began = self._clock()
            code = self._once(tokens, call)
        if code == DECODED:
            self._pace.note(tokens, self._clock() - began)
        return code

    def _once(self, tokens: int, call: Callable[[], int]) -> int:
        """The code of one try. The last one, with a single thread, has no deadline."""
        share = self._threads.share(tokens)
        if not (share and self._pace.reach):
            return call()
        seconds = max(LEAST, TIMES * self._pace.bound(tokens) / share)
        self._alarm.set(seconds)
        try:
            code = call()
        finally:
            self._alarm.clear()
        if code == ABORTED:
            error_details()  # llama.cpp logs it as an error: no later one must show it
            self._threads.give_up()
            log.debug(
                "a call of %d tokens ended after %.2f s: anew with %d threads", tokens, seconds, self._threads.now[0]
            )
        return code
