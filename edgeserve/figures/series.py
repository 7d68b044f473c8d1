"""Counters and histograms: plain numbers by label values, cheap enough for every request. Any thread."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import field

from edgeserve.dataclass import dataclass

Labels = tuple[str, ...]

MOST = 2000
"""Label sets of one family. Further ones are counted under ``REST``, so that memory stays bounded."""
REST = "other"


class Counter:
    """Sums by label values."""

    def __init__(self) -> None:
        self._sums: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def add(self, amount: float, *labels: str) -> None:
        with self._lock:
            labels = _kept(labels, self._sums)
            self._sums[labels] = self._sums.get(labels, 0.0) + amount

    def __iter__(self) -> Iterator[tuple[Labels, float]]:
        with self._lock:
            return iter(tuple(self._sums.items()))

    def total(self) -> float:
        """The sum over all label values."""
        return sum(amount for _, amount in self)


@dataclass(slots=True)
class Observed:
    """Observations of one label set. ``counts``: by bucket, the last one for values above all bounds."""

    counts: list[int]
    sum: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(slots=True)
class Histogram:
    """Observations by label values. ``bounds``: upper bounds of the buckets, rising."""

    bounds: Sequence[float]
    _found: dict[Labels, Observed] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, value: float, *labels: str, times: int = 1) -> None:
        """Add ``times`` observations of the same value."""
        with self._lock:
            labels = _kept(labels, self._found)
            found = self._found.get(labels)
            if found is None:
                found = self._found[labels] = Observed([0] * (len(self.bounds) + 1))
            found.counts[bisect_left(self.bounds, value)] += times
            found.sum += value * times

    def __iter__(self) -> Iterator[tuple[Labels, Observed]]:
        with self._lock:
            return iter([(labels, Observed(list(one.counts), one.sum)) for labels, one in self._found.items()])

    def total(self) -> float:
        """The sum of all observations."""
        return sum(one.sum for _, one in self)


def _kept(labels: Labels, known: dict[Labels, float] | dict[Labels, Observed]) -> Labels:
    return labels if labels in known or len(known) < MOST else (REST,) * len(labels)
