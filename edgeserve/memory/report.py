"""Bodies of the memory routes, in the shapes of docs/api/memory.md; sizes in MB. Pure functions.

With an accelerator that has memory of its own, ``total_mb`` … ``allocated_mb`` are its figures and ``cpu_*`` the
host's. Otherwise all figures are the host's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgeserve.engine import Rung
from edgeserve.engine_abilities import Contextual, Parallel, Spread
from edgeserve.memory.entry import Entry
from edgeserve.memory.gauge import Judgement, Situation
from edgeserve.memory.history import History, quantization
from edgeserve.memory.metal import MetalLimits
from edgeserve.memory.pressure import Level
from edgeserve.system.heap import HeapUsage
from edgeserve.system.readings import Accelerator, Readings
from edgeserve.units import MB

Json = dict[str, object]

MESSAGES = {
    Level.LOW: "Memory usage normal",
    Level.MODERATE: "Memory usage moderate: engines idle for long are parked",
    Level.HIGH: "Memory usage high: idle engines are parked",
    Level.CRITICAL: "Memory usage critical: all idle engines are closed",
}


def mb(size: int) -> int:
    return size // MB


def share(part: float, whole: float) -> float:
    """Percent, to one place."""
    return round(100 * part / whole, 1) if whole else 0.0


def space(readings: Readings) -> tuple[int, int]:
    """Total and free bytes: of an accelerator that has memory of its own, else of the host."""
    accelerator = readings.accelerator
    if accelerator.has_own_memory:
        return accelerator.total, accelerator.free
    return readings.total, readings.available


def budget_mb(now: Judgement) -> int:
    """The budget of the same memory as ``space``."""
    return mb(now.budget.device or 0 if now.readings.accelerator.has_own_memory else now.budget.usable)


def stats(now: Situation, entries: Iterable[Entry], history: History, limits: MetalLimits | None = None) -> Json:
    """GET /memory/stats. ``limits``: MLX's limits of its last load.

    ``used_percent`` is a share of the total; ``budget_used_percent`` decides the pressure level."""
    entries = list(entries)
    readings, counts = now.readings, history.counts
    accelerator, own = readings.accelerator, readings.accelerator.has_own_memory
    total, free = space(readings)
    warm = [one for one in entries if one.resident.rung is Rung.WARM]
    return {
        "cuda_available": accelerator.name == "cuda",
        "accelerator": accelerator.name,
        "total_mb": mb(total),
        "free_mb": mb(free),
        "used_mb": mb(total - free),
        "used_percent": share(total - free, total),
        "allocated_mb": mb(now.booked.device if own else now.booked.host),
        "budget_total_mb": mb(total),
        "budget_usable_mb": budget_mb(now),
        "budget_winner": now.budget.winner,
        "budget_candidates_mb": {name: mb(size) for name, size in now.budget.candidates.items()},
        "budget_used_percent": round(now.percent, 1),
        "cpu_budget_total_mb": mb(readings.total),
        "cpu_budget_usable_mb": mb(now.budget.warm),
        "cpu_used_mb": mb(sum(one.held.host for one in warm)),
        "pss_anon_mb": round(readings.process.anon / MB, 1),
        "pss_file_mb": round(readings.process.file / MB, 1),
        "mlx": _mlx(accelerator, limits),
        "models_loaded": sum(one.resident.rung is Rung.HOT for one in entries),
        "models_offloaded": len(warm),
        "pressure_level": now.level.name,
        "total_evictions": counts["offloaded"] + counts["unloaded"],
        "total_offloads": counts["offloaded"],
        "total_restorations": counts["restored"],
        "total_unloads": counts["unloaded"],
        "nodes": [row for one in entries for row in _nodes(one)],
    }


def _nodes(entry: Entry) -> Iterator[Json]:
    """The parts of a model that other machines hold; this machine's figures have none of them."""
    one = entry.resident
    for part in one.remote_parts if isinstance(one, Spread) else ():
        yield {"node": part.node, "model_name": one.spec.name, "layers": part.layers, "memory_mb": mb(part.size)}


def _mlx(accelerator: Accelerator, limits: MetalLimits | None) -> Json | None:
    """None until an engine has loaded MLX. The limits are None while the governor is off."""
    if accelerator.mlx is None:
        return None
    mlx = accelerator.mlx
    return {
        "active_mb": round(mlx.active / MB, 1),
        "cache_mb": round(mlx.cached / MB, 1),
        "peak_mb": round(mlx.peak / MB, 1),
        "limit_mb": limits and mb(limits.memory),
        "limit_winner": limits and limits.winner,
        "limit_candidates_mb": limits and {name: mb(size) for name, size in limits.candidates.items()},
        "cache_limit_mb": limits and mb(limits.cache),
        "wired_limit_mb": None if limits is None or limits.wired is None else mb(limits.wired),
    }


def model(entry: Entry, now: float, accelerator: Accelerator) -> Json:
    """One row of GET /memory/models.

    ``location``: "disk" for a cold engine, else the memory that it uses. ``context_tokens``: size of the context; null
    while there is none. ``slots``: requests that the engine answers at the same time."""
    one = entry.resident
    on_gpu = one.rung is Rung.HOT and entry.held.device > 0
    return {
        "id": one.spec.id,
        "model_name": one.spec.name,
        "model_type": one.spec.job,
        "quantization": quantization(one.spec),
        "location": "disk" if one.rung is Rung.COLD else "gpu" if on_gpu or _unified(entry, accelerator) else "cpu",
        "rung": one.rung.name.lower(),
        "memory_mb": round(entry.held.total / MB, 1),
        "estimated_mb": round(entry.estimated / MB, 1),
        "source": entry.source,
        "context_tokens": one.context_tokens if isinstance(one, Contextual) else None,
        "idle_seconds": round(0.0 if one.leases else max(0.0, now - one.last_used), 1),
        "use_count": entry.uses,
        "leases": one.leases,
        "slots": one.slots if isinstance(one, Parallel) else 1,
        "nodes": list(_nodes(entry)),
        "pinned": one.pinned,
    }


def offloaded(entry: Entry, wall: float) -> Json:
    """One row of GET /memory/offloaded; times in seconds since the epoch."""
    one = entry.resident
    return {
        "model_key": key(entry),
        "original_device": one.spec.device,
        "offload_time": entry.parked_at,
        "seconds_offloaded": round(max(0.0, wall - entry.parked_at), 1),
    }


def key(entry: Entry) -> str:
    """``type:name:quantization``."""
    spec = entry.resident.spec
    return f"{spec.job}:{spec.name}:{quantization(spec)}"


def fragmentation(readings: Readings, heap: HeapUsage | None, emergencies: int, stopped: int) -> Json:
    """GET /memory/fragmentation, of the accelerator's cache where there is one, else of the C heap.

    The heap's figure is an upper bound: it includes free pages that the system has back already. ``num_alloc_retries``
    counts emergency clean-ups, ``num_ooms`` answers that were stopped because a clean-up was not enough.
    """
    accelerator = readings.accelerator
    if accelerator.total:
        allocated, reserved = accelerator.active, accelerator.active + accelerator.cached
    elif heap is not None:
        allocated = heap.allocated
        reserved = max(allocated, min(heap.reserved, readings.process.own))
    else:
        allocated = reserved = readings.process.own
    unused = max(0, reserved - allocated)
    return {
        "cuda_available": accelerator.name == "cuda",
        "accelerator": accelerator.name,
        "allocated_mb": mb(allocated),
        "reserved_mb": mb(reserved),
        "fragmentation_mb": mb(unused),
        "fragmentation_percent": share(unused, reserved),
        "num_alloc_retries": emergencies,
        "num_ooms": stopped,
    }


def health(now: Judgement) -> Json:
    """GET /memory/health: unhealthy at CRITICAL. ``used_percent`` is a share of the budget, as the levels are."""
    return {
        "healthy": now.level is not Level.CRITICAL,
        "pressure": now.level.name,
        "used_percent": round(now.percent, 1),
        "message": MESSAGES[now.level],
    }


def _unified(entry: Entry, accelerator: Accelerator) -> bool:
    one = entry.resident
    return accelerator.unified and accelerator.total > 0 and one.rung is Rung.HOT and one.spec.device != "cpu"
