"""Another rate for a sound that comes in pieces: a polyphase filter in plain Python.

One second of 24 kHz to 16 kHz takes some 20 ms. The serving process so needs no array library.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence

CROSSINGS = 8
"""Zero crossings of the windowed sinc at each side."""
ROLL_OFF = 0.9
"""Cut-off frequency as a share of the lower half rate. The rest is the filter's slope."""


@functools.lru_cache(maxsize=8)
def phases(up: int, down: int) -> tuple[tuple[float, ...], ...]:
    """The coefficients for each of ``up`` places between two samples: a sinc under a Hann window."""
    stretch = max(1.0, down / up) / ROLL_OFF
    half = math.ceil(CROSSINGS * stretch)
    found = []
    for phase in range(up):
        places = [at - half + 1 - phase / up for at in range(2 * half)]
        taps = [_sinc(one / stretch) * (0.5 + 0.5 * math.cos(math.pi * min(1.0, abs(one) / half))) for one in places]
        total = sum(taps)
        found.append(tuple(one / total for one in taps))
    return tuple(found)


def _sinc(at: float) -> float:
    return 1.0 if at == 0 else math.sin(math.pi * at) / (math.pi * at)


class Resampler:
    """One sound from rate ``source`` to rate ``target``, in Hz. The delay is half a filter: at most 3 ms."""

    def __init__(self, source: int, target: int) -> None:
        shared = math.gcd(source, target)
        self._up, self._down = target // shared, source // shared
        self._same = source == target
        self._phases = () if self._same else phases(self._up, self._down)
        self._width = len(self._phases[0]) if self._phases else 0
        self._held: list[float] = [0.0] * (self._width // 2 - 1)
        self._next = 0
        """Place of the next output, in source samples times ``up``, from the first held one."""

    def feed(self, samples: Sequence[float]) -> list[float]:
        """The samples at the new rate that are certain now."""
        if self._same:
            return list(samples)
        held, width, up, down = self._held, self._width, self._up, self._down
        held.extend(samples)
        made, place = [], self._next
        while place // up + width <= len(held):
            start = place // up
            made.append(sum(map(operator.mul, self._phases[place % up], held[start : start + width])))
            place += down
        passed = min(place // up, len(held))
        del held[:passed]
        self._next = place - passed * up
        return made

    def end(self) -> list[float]:
        """The rest, which waits for samples behind it: silence."""
        return self.feed([0.0] * (self._width // 2)) if not self._same else []
