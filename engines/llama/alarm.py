"""An alarm that ends a call of llama.cpp from another thread."""

from __future__ import annotations

import ctypes
import functools
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from edgeserve.engines.llama.runtime import llama

log = logging.getLogger("edgeserve.llama")


class Alarm:
    """Raises a flag when the time of a call is up. llama.cpp looks at the flag after each operation.

    One thread at a time makes calls. The first ``set`` starts a thread, which sleeps while no call is under way.
    ``clock`` in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.flag = ctypes.create_string_buffer(2)
        """A text: empty, or one character long once the time is up."""
        self._clock = clock
        self._changed = threading.Condition()
        self._at = self._awaited = math.inf
        """Times at which the flag is raised, and at which the thread looks next."""
        self._closed = False
        self._thread: threading.Thread | None = None

    def set(self, seconds: float) -> None:
        """Raise the flag in so many seconds, unless ``clear`` is called before."""
        with self._changed:
            self._at = self._clock() + seconds
            if self._thread is None:
                self._start()
            elif self._at < self._awaited:
                self._changed.notify()

    def clear(self) -> None:
        """Lower the flag. It stays low until the next ``set``."""
        with self._changed:
            self._at = math.inf
            self.flag.value = b""

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="edgeserve-alarm", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no more threads: calls take as long as they take
            self._thread = None
            log.debug("no alarm: %s", error)

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                left = self._at - self._clock()
                if left <= 0:
                    self.flag.value, self._at, left = b"1", math.inf, math.inf
                # No call wakes the thread: when this time is up, mostly a later call is under way.
                self._awaited = self._at
                self._changed.wait(None if left == math.inf else left)


def attach(alarm: Alarm, context: Any) -> None:
    """Have a context look at the flag. A call that finds it raised ends with code 2 of llama_decode.

    A Python function would wait for the interpreter some hundred times a token. ``strlen`` of the flag is not 0 once it
    is raised.
    """
    runtime = llama()
    runtime.llama_set_abort_callback(context, _strlen(runtime.ggml_abort_callback), alarm.flag)


@functools.cache
def _strlen(kind: Any) -> Any:
    # Cached, since llama.cpp keeps a pointer to it.
    return ctypes.cast(ctypes.CDLL(None).strlen, kind)
