"""The end of a server in a hurry, and its last resort.

Nothing stops a load on one of its own threads, except the process's end.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence

log = logging.getLogger("edgeserve.server")

LOOK_SECONDS = 0.5
"""Time between two looks whether an engine still loads, once the time is over."""
HURRY_SECONDS = 1.0
"""Time in which clients read that a second Ctrl-C cut their answers. Then the server drops the connections."""
ANSWERS_SECONDS = 0.1
"""Time between two looks whether the answers that were cut have ended."""


def behind_answers(under_way: Callable[[], bool], drop: Callable[[], object], seconds: float) -> None:
    """Call ``drop`` ``HURRY_SECONDS`` after the last answer has ended, or after ``seconds``. On the event loop.

    An answer ends behind the step under way. A piece of a long prompt takes 1.5 s, and more on a busy machine.
    """
    again = asyncio.get_running_loop().call_later
    if seconds > 0 and under_way():
        again(ANSWERS_SECONDS, behind_answers, under_way, drop, seconds - ANSWERS_SECONDS)
    else:
        again(HURRY_SECONDS, drop)


class LastResort:
    """Ends the process where an engine still loads when the time for the end is over. Any thread.

    ``loading`` names the models that load on threads of this process. ``leave`` ends the process. ``clock`` in seconds.
    """

    def __init__(
        self,
        loading: Callable[[], Sequence[str]],
        leave: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loading = loading
        self._leave = leave
        self._clock = clock
        self._changed = threading.Condition()
        self._until: float | None = None
        self._thread: threading.Thread | None = None

    def arm(self, seconds: float) -> None:
        """Wait at most so many seconds from now on; a shorter wait that was begun earlier stays."""
        with self._changed:
            until = self._clock() + seconds
            self._until = until if self._until is None else min(until, self._until)
            if self._thread is None:
                self._thread = threading.Thread(target=self._wait, name="edgeserve end", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def disarm(self) -> None:
        """The end came in time."""
        with self._changed:
            self._until = self._thread = None
            self._changed.notify_all()

    def _wait(self) -> None:
        own = threading.current_thread()
        with self._changed:
            while self._thread is own and self._until is not None:
                left = self._until - self._clock()
                if left <= 0:
                    if models := self._loading():
                        break
                    left = LOOK_SECONDS
                self._changed.wait(left)
            else:
                return
        log.warning("the server ends now, while %s still loads: nothing ends a load on a thread", " and ".join(models))
        self._leave()
