"""The text of a refusal: bytes needed, available and evictable, and a setting with which the model would fit."""

from __future__ import annotations

import math

from edgeserve.jobs import table_of
from edgeserve.memory.budget import Budget
from edgeserve.memory.occupancy import Need
from edgeserve.memory.plan import Decision
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings
from edgeserve.units import GB, MB

LEAST_RESERVE = 0.05
"""Share of the memory that every advice leaves to the system."""


def mb(size: int) -> str:
    return f"{max(0, size) / MB:,.0f} MB"


def does_not_fit(
    need: Need,
    decision: Decision,
    budget: Budget,
    readings: Readings,
    pinned: list[str],
    policy: MemoryPolicy,
    own: int = 0,
) -> str:
    """Text of DoesNotFit (507). ``own``: bytes of the request's own body and pictures."""
    figures = _figures(need, decision, budget)
    if 0 < decision.missing <= own and own >= MB:
        text = f"The request's own body and pictures take {mb(own)}, and there is no room for both"
        return f"{figures}. {text}: send less at a time"
    return f"{figures}. {advice(need, decision, budget, readings, pinned, policy)}"


def in_use(need: Need, decision: Decision, budget: Budget, seconds: float, passing: int = 0) -> str:
    """Text of Busy (503): the model fits, but not beside the engines at work and ``passing`` bytes of clients."""
    sent = f" and the {mb(passing)} of other requests' files and unread answers are gone" if passing >= MB else ""
    return (
        f"{_figures(need, decision, budget)}. It would fit once the engines in use are idle{sent}, "
        f"which did not happen within {seconds:g} s; try again later"
    )


def _figures(need: Need, decision: Decision, budget: Budget) -> str:
    return (
        f"{need.name} needs {mb(need.amount.host)} of memory; {mb(decision.free)} of the budget of {mb(budget.usable)} "
        f"({budget.winner}) are available and {mb(decision.evictable)} more are evictable"
    )


def advice(
    need: Need, decision: Decision, budget: Budget, readings: Readings, pinned: list[str], policy: MemoryPolicy
) -> str:
    """The mildest change with which the model would fit.

    1. The accelerator's own memory is short: use the processor.
    2. One limit of the budget is short: loosen it, when that alone is enough.
    3. An engine is pinned: unpin it.
    4. Other programs hold the memory: free it.
    5. Otherwise: a smaller model or context, with the size that would fit.
    """
    smaller = f"a smaller model, quantization or context for [{table_of(need.id)}]"
    # 1.
    if budget.device is not None and need.amount.device > budget.device:
        device = f"{mb(need.amount.device)} of the accelerator's memory are needed, {mb(budget.device)} may be used"
        return f'{device}: set device = "cpu" in [{table_of(need.id)}], or choose {smaller}'
    # 2.
    wanted, total = decision.required, readings.machine_total
    alone = wanted <= min((size for name, size in budget.candidates.items() if name != budget.winner), default=0)
    if alone and budget.winner == "total_minus_reserve" and total - wanted >= LEAST_RESERVE * total:
        return f"Set EDGESERVE_OS_RESERVE={_floor((total - wanted) / GB)} to make it fit, or choose {smaller}"
    if alone and budget.winner == "fraction_of_total" and wanted <= (1 - LEAST_RESERVE) * readings.total:
        percent = math.ceil(100 * wanted / readings.total) / 100
        return f"Set EDGESERVE_GPU_MEMORY_MAX_PERCENT={percent:.2f} to make it fit, or choose {smaller}"
    if alone and budget.winner == "accelerator_recommended" and readings.accelerator.is_apple:
        limit = f"sudo sysctl iogpu.wired_limit_mb={math.ceil(wanted / MB)}"
        return f"Let the GPU take more with `{limit}` (docs/apple.md) to make it fit, or choose {smaller}"
    # 3.
    if pinned:
        return f"Remove pinned = true from {', '.join(f'[{table_of(one)}]' for one in pinned)}, or choose {smaller}"
    # 4.
    if alone and budget.winner == "available_now":
        return f"Other programs hold the memory: free {mb(wanted - budget.usable)} on the device, or choose {smaller}"
    # 5.
    return f"Choose {smaller} that needs at most {mb(decision.largest)}"


def _floor(gb: float) -> str:
    """Rounded down to a hundredth, so that the advised setting is enough."""
    return f"{math.floor(gb * 100) / 100:g}"
