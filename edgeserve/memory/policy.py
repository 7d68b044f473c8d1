"""Every number of the memory policy, read from [memory] of models.toml and its variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError
from edgeserve.setting_values import NOTHING
from edgeserve.settings import Reader, Source, key

MAX_NEW_TOKENS = 4096
"""Default limit of the tokens of one answer."""

BY_SIZE = {-1.0: "by the size of the machine"}


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """[memory]. Shares are of 1, times in seconds, sizes as named; -1 stands for "by the size of the machine"."""

    enabled: bool = key(True, env="ENABLE_MEMORY_GOVERNOR")
    max_percent: float = key(0.90, env="GPU_MEMORY_MAX_PERCENT", low=0.05, high=1)
    """Share of the memory that all engines may take: of the accelerator's own, or of the machine's."""
    warm_max_percent: float = key(0.50, env="CPU_MEMORY_MAX_PERCENT", low=0, high=1)
    """Share of the machine's memory that warm engines may hold. Beyond it, engines are closed instead of parked."""
    context_percent: float = key(0.10, env="CONTEXT_PERCENT", low=0, high=1)
    """Share of the budget that the optional part of a context of automatic size may take."""
    cpu_offload: bool = key(True, env="ENABLE_CPU_OFFLOAD")
    """Evict one rung (to warm) before two (to cold)."""
    os_reserve_gb: float = key(-1.0, env="OS_RESERVE", low=0, special=BY_SIZE)
    """GB left to the system; -1: by the size of the machine (budget.os_reserve)."""
    available_margin_gb: float = key(-1.0, env="AVAILABLE_MARGIN", low=0, special=BY_SIZE)
    """Available GB that no plan uses; -1: 5% of the machine, at most 3."""
    override_memory_mb: int = key(0, env="OVERRIDE_MEMORY_MB", low=0)
    """Simulates a machine with this much memory; 0: the real one."""
    vision_threshold: float = key(0.70, env="VISION_THRESHOLD", low=0.05, high=1)
    """Share of the total above which a vision model is refused and any other model logs a warning."""
    memory_threshold: float = key(-1.0, env="MEMORY_THRESHOLD", low=0, high=1, special=BY_SIZE)
    """Used share of the total from which prefix caches are dropped; -1: by the size of the machine."""
    eviction_idle_seconds: float = key(120.0, env="EVICTION_IDLE_THRESHOLD_SECONDS", low=0)
    """Idle time from which MODERATE pressure parks an engine."""
    high_idle_seconds: float = key(30.0, env="HIGH_IDLE_SECONDS", low=0)
    """Idle time from which HIGH pressure parks an engine."""
    grace_seconds: float = key(5.0, env="GRACE_SECONDS", low=0)
    """An engine used this recently is evicted for a waiting request only, and after all other idle ones."""
    min_hot_seconds: float = key(2.0, env="MIN_HOT_SECONDS", low=0)
    """An engine that has become hot stays hot at least this long while it has work, whoever waits for its memory."""
    pressure_interval: float = key(15.0, env="PRESSURE_CHECK_INTERVAL_SECONDS", low=0.05)
    moderate_percent: float = key(60.0, env="PRESSURE_MODERATE_PERCENT", low=1, high=100)
    high_percent: float = key(80.0, env="PRESSURE_HIGH_PERCENT", low=1, high=100)
    critical_percent: float = key(90.0, env="PRESSURE_CRITICAL_PERCENT", low=1, high=100)
    switch_timeout: float = key(10.0, env="SWITCH_TIMEOUT_SECONDS", low=0)
    """Time that a load waits for memory that a step down returned."""
    switch_interval: float = key(0.5, env="SWITCH_INTERVAL_SECONDS", low=0.01)
    queue_seconds: float = key(30.0, env="MEMORY_QUEUE_SECONDS", low=0)
    """Time without progress after which a request that waits for memory is answered 503.

    Progress: an answer is under way, begins or ends, or an engine moves."""
    max_new_tokens: int = key(MAX_NEW_TOKENS, env="MAX_NEW_TOKENS", low=1, high=1_000_000)
    """Hard cap on the tokens of one answer."""


def read_policy(
    table: Mapping[str, object],
    environ: Mapping[str, str],
    source: Source,
    tables: Mapping[str, Sequence[str]] = NOTHING,
) -> MemoryPolicy:
    """[memory] as written; ``EDGESERVE_*`` variables win. Raises ConfigError naming the place.

    ``tables``: known keys of all tables, for suggestions."""
    policy = MemoryPolicy(**Reader(source, environ, tables=tables).read(MemoryPolicy, "memory", table))
    if not policy.moderate_percent <= policy.high_percent <= policy.critical_percent:
        raise ConfigError(
            f"{source.label('memory')} pressure levels must rise: moderate_percent {policy.moderate_percent:g}, "
            f"high_percent {policy.high_percent:g}, critical_percent {policy.critical_percent:g}"
        )
    return policy
