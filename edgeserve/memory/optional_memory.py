"""Memory that makes an engine faster or its context larger: a pure function finds how much of it has no room.

No engine steps down for optional memory, and it never raises the pressure level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.occupancy import Need, Occupancy, SavingKind, booked, overhead
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings


def excess(
    optional: int,
    need: Need,
    residents: Sequence[Occupancy],
    readings: Readings,
    budget: Budget,
    policy: MemoryPolicy,
    *,
    base: int = 0,
    passing: int = 0,
    kind: SavingKind = "optional_context",
) -> int:
    """Bytes of the ``optional`` bytes in ``need`` that have no room. ``base`` as for ``plan``.

    ``passing``: bytes of requests and answers in the readings, which do not count: the engine goes without for hours.

    1. Of a context, bytes beyond the share of the budget that ``context_percent`` allows: llama.cpp fills a context
       with zeros each time it makes one, so each of its bytes costs time and memory, used or not.
    2. On an accelerator with memory of its own: the bytes beyond the next pressure level there.
    3. Otherwise the bytes beyond that level in the budget, or beyond the budget itself with mapped weights counted.
    """
    total = booked(residents, {}, need)
    device = budget.device if need.amount.device else None
    room = budget.usable if device is None else device
    # 1.
    most = optional - int(policy.context_percent * room) if kind == "optional_context" else 0
    # 2.
    if device is not None:
        return _within(optional, max(most, total.device - _below_next(total.device - optional, room, policy)))
    # 3.
    private = unreclaimable(total, budget) + max(base, overhead(residents, readings) - passing)
    over = private - _below_next(private - optional, budget.usable, policy)
    return _within(optional, max(most, over, total.mapped + private - budget.usable))


def room_for_states(
    residents: Sequence[Occupancy],
    readings: Readings,
    budget: Budget,
    policy: MemoryPolicy,
    *,
    base: int = 0,
    passing: int = 0,
) -> int:
    """Bytes of past conversations that engines may keep beside those that they keep already; negative: too many.

    They stay below HIGH. Mapped weights do not count: the system drops their pages by itself. ``base`` and ``passing``
    as for ``excess``.
    """
    total = booked(residents, {})
    private = unreclaimable(total, budget) + max(base, overhead(residents, readings) - passing)
    return math.ceil(policy.high_percent * budget.usable / 100) - 1 - private


def unreclaimable(total: Amount, budget: Budget) -> int:
    """Bytes that the system cannot take back; device memory counts when the accelerator has none of its own."""
    return total.private + (total.device if budget.device is None else 0)


def _below_next(used: int, room: int, policy: MemoryPolicy) -> int:
    """The most bytes at the same pressure level as ``used``; 0 at CRITICAL."""
    for percent in (policy.moderate_percent, policy.high_percent, policy.critical_percent):
        bound = math.ceil(percent * room / 100) - 1
        if used <= bound:
            return bound
    return 0


def _within(optional: int, over: int) -> int:
    return min(optional, max(0, over))
