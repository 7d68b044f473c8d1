"""The pace of one key: its requests a minute, and those that run at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from edgeserve.errors import TooManyRequests
from edgeserve.keys.key import Key

MINUTE = 60.0
SOON = 2.0
"""Seconds after which a client may ask again where its requests run: nobody knows when one of them ends."""


class Pace:
    """Counts the requests of one key. One thread. ``clock`` in seconds.

    A key that rested may send its requests of a minute at once. Then it gains one each 60 s / ``per_minute``.
    """

    def __init__(self, key: Key, clock: Callable[[], float] = time.monotonic) -> None:
        self.key = key
        self._clock = clock
        self._left = float(key.per_minute)
        self._since = clock()
        self.running = 0

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it runs. Raises TooManyRequests where a limit is reached; nothing is counted then."""
        key = self.key
        if key.at_once and self.running >= key.at_once:
            text = f"{self.running} requests of the key {key.name!r} run, and no more may run at once"
            raise TooManyRequests(f"{text}; wait for the end of one", retry_after=SOON)
        if key.per_minute:
            self._gain()
            if self._left < 1:
                text = f"the key {key.name!r} has sent its {key.per_minute} requests of a minute"
                raise TooManyRequests(f"{text}; wait", retry_after=(1 - self._left) * MINUTE / key.per_minute)
            self._left -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def _gain(self) -> None:
        now = self._clock()
        gained = (now - self._since) * self.key.per_minute / MINUTE
        self._left, self._since = min(float(self.key.per_minute), self._left + gained), now
