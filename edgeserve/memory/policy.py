"""Every number of the memory policy, with its source, and the reading of [memory] and its variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgeserve.errors import ConfigError

GB = 1 << 30
MB = 1 << 20


def number(default: Any, env: str, low: float = 0.0, high: float = float("inf")) -> Any:
    return field(default=default, metadata={"env": env, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """[memory]. Shares are of 1, times in seconds, sizes as named."""

    enabled: bool = number(True, "ENABLE_MEMORY_GOVERNOR")
    max_percent: float = number(0.90, "GPU_MEMORY_MAX_PERCENT", 0.05, 1.0)
    """Share of the total that all engines together may take."""
    warm_max_percent: float = number(0.50, "CPU_MEMORY_MAX_PERCENT", 0.0, 1.0)
    """Share of the total that warm engines may take."""
    cpu_offload: bool = number(True, "ENABLE_CPU_OFFLOAD")
    """Evict one rung (to warm) before two (to cold)."""
    os_reserve_gb: float = number(-1.0, "OS_RESERVE", -1.0)
    """What is left to the system; -1: by the tier of the machine."""
    override_memory_mb: int = number(0, "OVERRIDE_MEMORY_MB")
    """Simulates a machine with this much memory; 0: the real one."""
    vision_threshold: float = number(0.70, "VISION_THRESHOLD", 0.05, 1.0)
    """Share of the total above which a vision model is refused and a text model is warned about."""
    eviction_idle_seconds: float = number(120.0, "EVICTION_IDLE_THRESHOLD_SECONDS")
    """Idle time from which MODERATE pressure parks an engine."""
    high_idle_seconds: float = number(30.0, "HIGH_IDLE_SECONDS")
    """Idle time from which HIGH pressure parks an engine."""
    grace_seconds: float = number(5.0, "GRACE_SECONDS")
    """An engine used this recently is never evicted."""
    pressure_interval: float = number(15.0, "PRESSURE_CHECK_INTERVAL_SECONDS", 0.05)
    switch_timeout: float = number(10.0, "SWITCH_TIMEOUT_SECONDS")
    """How long a load waits for memory that a step down gave back."""
    switch_interval: float = number(0.5, "SWITCH_INTERVAL_SECONDS", 0.01)


def os_reserve(total: int) -> int:
    """Bytes left to the system: 4 GB up to 16 GB of memory, 6 up to 64, 8 up to 128, else 12.

    Tiers from reference vllm-metal#97. They were drawn for desktop machines from 16 GB up: on smaller boxes, which run
    little else, at most a quarter of the memory is reserved, which is the share of the 16 GB tier.
    """
    tiers = ((16, 4), (64, 6), (128, 8))
    reserve = next((gb for limit, gb in tiers if total <= limit * GB), 12) * GB
    return min(reserve, total // 4)


def read_policy(table: Mapping[str, object], environ: Mapping[str, str], source: str) -> MemoryPolicy:
    """[memory] as written, under the ``EDGESERVE_*`` variables. Raises ConfigError naming the place."""
    fields = {one.name: one for one in dataclasses.fields(MemoryPolicy)}
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in fields:
            raise ConfigError(f"{source}: [memory] {name} is not a known setting; expected one of: {', '.join(fields)}")
        values[name] = _checked(f"{source}: [memory] {name}", value, fields[name])
    for name, one in fields.items():
        variable = f"EDGESERVE_{one.metadata['env']}"
        if variable in environ:
            values[name] = _checked(variable, _parsed(variable, environ[variable], one), one)
    return MemoryPolicy(**values)


def _parsed(place: str, text: str, one: dataclasses.Field[Any]) -> object:
    if isinstance(one.default, bool):
        words = {"true": True, "1": True, "false": False, "0": False}
        return words.get(text.lower(), text)
    try:
        return int(text) if isinstance(one.default, int) else float(text)
    except ValueError:
        raise ConfigError(f"{place} = {text!r}: expected a number") from None


def _checked(place: str, value: Any, one: dataclasses.Field[Any]) -> object:
    if isinstance(one.default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{place} = {value!r}: expected true or false")
        return value
    kinds = (int,) if isinstance(one.default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ConfigError(f"{place} = {value!r}: expected a number")
    low, high = one.metadata["low"], one.metadata["high"]
    if not low <= value <= high:
        raise ConfigError(f"{place} = {value!r}: expected a number from {low:g} to {high:g}")
    return float(value) if isinstance(one.default, float) else value
