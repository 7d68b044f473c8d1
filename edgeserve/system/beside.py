"""Threads beside the load of other programs, for a runtime whose threads wait for each other."""

from __future__ import annotations

import math

TAKEN, FREE = 0.5, 0.75
"""Shares of a core: others who take more than TAKEN take it from a thread, and one that is FREE gets a thread. Between
both nothing changes. Others who compete with a thread for a core show half of their load only."""


def beside(others: float, now: int, most: int, count: int) -> int:
    """Threads beside a load of ``others`` cores, where there are ``now``: at least 1, at most ``most``.

    ``count``: cores of the process. A configuration with more threads than cores gets them all while nobody else works.
    """
    free = max(count, most) - others
    fewer, more = math.floor(free + 1 - TAKEN), math.floor(free + 1 - FREE)
    return max(1, min(most, max(more, min(now, fewer))))
