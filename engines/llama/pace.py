"""The seconds of a call of llama.cpp by its number of tokens, measured while answers are written."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection

KEPT = 5
"""Latest calls of each size whose median counts: other load on the machine makes single calls slow."""
STALE = 512
"""Calls after which a size that none of them had is forgotten, so that it is tried again."""
FIRST_SLOPE = 0.25
"""Cost of each further token beyond the largest call that was measured, as a share of a call of one. It is low, so that
larger calls are tried. A call of two tokens may cost nearly twice as much, and one of four hardly more than that."""
GROWTH = 2
"""An unknown call may be so many times as large as the largest known one."""


class Pace:
    """Costs of calls of a few tokens. A prompt's calls do not count."""

    def __init__(self) -> None:
        self._seen: dict[int, deque[float]] = {}
        self._noted: dict[int, int] = {}
        self._costs: dict[int, float] = {}
        self._sizes: list[int] = []
        self._calls = 0

    def note(self, tokens: int, seconds: float) -> None:
        """Count a call."""
        self._calls += 1
        self._noted[tokens] = self._calls
        seen = self._seen.setdefault(tokens, deque(maxlen=KEPT))
        seen.append(seconds)
        self._costs[tokens] = median(seen)
        if self._calls % STALE == 0:
            for size, last in list(self._noted.items()):
                if last <= self._calls - STALE and size != self._sizes[0]:
                    del self._noted[size], self._seen[size], self._costs[size]
        self._sizes = sorted(self._costs)

    @property
    def reach(self) -> int:
        """Tokens of the largest call whose cost may be guessed; 0 before the first call."""
        return GROWTH * self._sizes[-1] if self._sizes else 0

    def knows(self, tokens: int) -> bool:
        """Whether so large a call was measured, or a larger one."""
        return bool(self._sizes) and tokens <= self._sizes[-1]

    def cost(self, tokens: int) -> float:
        """Seconds of a call: measured, on the line through its neighbours, or hoped for. Requires one call."""
        known = self._costs.get(tokens)
        if known is not None:
            return known
        sizes = self._sizes
        at = bisect_left(sizes, tokens)
        if at == 0:
            return self._costs[sizes[0]]
        low = sizes[at - 1]
        return self._costs[low] + (tokens - low) * self._slope(at)

    def bound(self, tokens: int) -> float:
        """Seconds of a call at most: measured, or as many calls of the smallest size. Requires one call."""
        least = self._sizes[0]
        whole = max(1.0, tokens / least) * self._costs[least]
        return min(whole, self.cost(tokens)) if self.knows(tokens) else whole

    def _slope(self, at: int) -> float:
        """Seconds a token between the sizes numbered ``at - 1`` and ``at``, or beyond the last."""
        sizes, costs = self._sizes, self._costs
        if at == len(sizes):
            return FIRST_SLOPE * costs[sizes[0]] / sizes[0]
        low, high = sizes[at - 1], sizes[at]
        return max(0.0, (costs[high] - costs[low]) / (high - low))


def median(seen: Collection[float]) -> float:
    """Not that of ``statistics``, whose import takes 1 MB and 8 ms in every worker."""
    ordered, half = sorted(seen), len(seen) // 2
    return (ordered[half] + ordered[~half]) / 2
