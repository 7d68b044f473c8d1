"""The times of one answer, in nanoseconds, as Ollama's clients read them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator

FAR = "2318-01-01T00:00:00Z"
"""The end of a model that stays. Clients parse it as a date."""


class Times:
    """Stamps of an answer. ``begin`` comes from the host's thread, the other stamps from the renderer's."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._asked = clock()
        self._begun = self._first = self._ended = 0

    def begin(self) -> None:
        """The engine is hot, and the answer has its turn. The first call counts."""
        self._begun = self._begun or self._clock()

    def event(self) -> None:
        """An event came. The first one ends the reading of the prompt, the last one the answer."""
        self._ended = self._clock()
        self._first = self._first or self._ended

    def durations(self) -> Iterator[tuple[str, int]]:
        """Names and nanoseconds; ``load_duration`` holds the wait for the turn, too. Zeros are left out."""
        begun = self._begun or self._asked
        parts = {
            "total_duration": self._clock() - self._asked,
            "load_duration": begun - self._asked,
            "prompt_eval_duration": self._first - begun,
            "eval_duration": self._ended - self._first,
        }
        return ((name, length) for name, length in parts.items() if length > 0)


def written(moment: float) -> str:
    """Seconds since the epoch in RFC 3339, in UTC with a Z."""
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def now() -> str:
    return written(time.time())
