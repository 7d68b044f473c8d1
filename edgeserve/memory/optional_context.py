"""How much of a context that is to be as large as memory allows must go: a pure function.

Such a context is a luxury: nobody steps down for it, and it never raises the pressure level, at which others would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.plan import Need, Standing, booked, overhead
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings


def excess(
    spare: int,
    need: Need,
    residents: Sequence[Standing],
    readings: Readings,
    budget: Budget,
    policy: MemoryPolicy,
    *,
    base: int = 0,
) -> int:
    """Bytes of the ``spare`` ones in ``need`` that there is no room for. ``base`` as for ``plan``.

    1. On an accelerator with memory of its own: what passes the next pressure level there.
    2. Else what passes it in the budget, or the budget itself once mapped weights are counted.
    """
    total = booked(residents, {}, need)
    # 1.
    if need.amount.device and budget.device is not None:
        return _within(spare, total.device - _below_next(total.device - spare, budget.device, policy))
    # 2.
    private = unreclaimable(total, budget) + max(base, overhead(residents, readings))
    over = private - _below_next(private - spare, budget.usable, policy)
    return _within(spare, max(over, total.mapped + private - budget.usable))


def unreclaimable(total: Amount, budget: Budget) -> int:
    """Without an accelerator's own memory, what lies on an accelerator lies in the machine's."""
    return total.private + (total.device if budget.device is None else 0)


def _below_next(used: int, room: int, policy: MemoryPolicy) -> int:
    """The most that is at the same pressure level as ``used``; nothing at CRITICAL."""
    for percent in (policy.moderate_percent, policy.high_percent, policy.critical_percent):
        bound = math.ceil(percent * room / 100) - 1
        if used <= bound:
            return bound
    return 0


def _within(spare: int, over: int) -> int:
    return min(spare, max(0, over))
