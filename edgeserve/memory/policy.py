"""Every number of the memory policy, with its source, and the reading of [memory] and its variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgeserve.errors import ConfigError

GB = 1 << 30
MB = 1 << 20

MAX_NEW_TOKENS = 4096
"""Tokens of one answer at most, unless configured (reference/eviction-versus-limits.md)."""

WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def number(default: Any, env: str, low: float = 0.0, high: float = float("inf")) -> Any:
    """A setting: its default, its variable without EDGESERVE_, the smallest and the largest value."""
    return field(default=default, metadata={"env": env, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """[memory]. Shares are of 1, times in seconds, sizes as named; -1 stands for "by the size of the machine"."""

    enabled: bool = number(True, "ENABLE_MEMORY_GOVERNOR")
    max_percent: float = number(0.90, "GPU_MEMORY_MAX_PERCENT", 0.05, 1.0)
    """Share of the memory that engines compute in (the accelerator's own, or the machine's) that all may take."""
    warm_max_percent: float = number(0.50, "CPU_MEMORY_MAX_PERCENT", 0.0, 1.0)
    """Share of the machine's memory that warm engines may hold; beyond it they are closed instead of parked."""
    cpu_offload: bool = number(True, "ENABLE_CPU_OFFLOAD")
    """Evict one rung (to warm) before two (to cold)."""
    os_reserve_gb: float = number(-1.0, "OS_RESERVE", -1.0)
    """GB left to the system; -1: by the tier of the machine (budget.os_reserve)."""
    available_margin_gb: float = number(-1.0, "AVAILABLE_MARGIN", -1.0)
    """GB of what is available now that are never planned with; -1: 5% of the machine, at most 3."""
    override_memory_mb: int = number(0, "OVERRIDE_MEMORY_MB")
    """Simulates a machine with this much memory; 0: the real one."""
    vision_threshold: float = number(0.70, "VISION_THRESHOLD", 0.05, 1.0)
    """Share of the total above which a vision model is refused and any other is warned about."""
    memory_threshold: float = number(-1.0, "MEMORY_THRESHOLD", -1.0, 1.0)
    """Share of the total from which cached prefixes are dropped; -1: by the tier of the machine."""
    eviction_idle_seconds: float = number(120.0, "EVICTION_IDLE_THRESHOLD_SECONDS")
    """Idle time from which MODERATE pressure parks an engine."""
    high_idle_seconds: float = number(30.0, "HIGH_IDLE_SECONDS")
    """Idle time from which HIGH pressure parks an engine."""
    grace_seconds: float = number(5.0, "GRACE_SECONDS")
    """An engine used this recently is never evicted."""
    pressure_interval: float = number(15.0, "PRESSURE_CHECK_INTERVAL_SECONDS", 0.05)
    moderate_percent: float = number(60.0, "PRESSURE_MODERATE_PERCENT", 1.0, 100.0)
    high_percent: float = number(80.0, "PRESSURE_HIGH_PERCENT", 1.0, 100.0)
    critical_percent: float = number(90.0, "PRESSURE_CRITICAL_PERCENT", 1.0, 100.0)
    switch_timeout: float = number(10.0, "SWITCH_TIMEOUT_SECONDS")
    """How long a load waits for memory that a step down gave back."""
    switch_interval: float = number(0.5, "SWITCH_INTERVAL_SECONDS", 0.01)
    queue_seconds: float = number(30.0, "MEMORY_QUEUE_SECONDS")
    """How long a request waits for engines in use to come free before it is answered 503."""
    max_new_tokens: int = number(MAX_NEW_TOKENS, "MAX_NEW_TOKENS", 1)
    """Hard cap on the tokens of one answer."""


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
        if environ.get(variable):  # empty: not given
            values[name] = _checked(variable, _parsed(variable, environ[variable], one), one)
    policy = MemoryPolicy(**values)
    if not policy.moderate_percent <= policy.high_percent <= policy.critical_percent:
        raise ConfigError(
            f"{source}: [memory] pressure levels must rise: moderate_percent {policy.moderate_percent:g}, high_percent "
            f"{policy.high_percent:g}, critical_percent {policy.critical_percent:g}"
        )
    return policy


def _parsed(place: str, text: str, one: dataclasses.Field[Any]) -> object:
    if isinstance(one.default, bool):
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        return words.get(text.strip().lower(), text)
    try:
        return int(text) if isinstance(one.default, int) else float(text)
    except ValueError:
        raise ConfigError(f"{place} = {text!r}: expected {_expected(one)}") from None


def _checked(place: str, value: Any, one: dataclasses.Field[Any]) -> object:
    plain = type(one.default)
    kinds: Any = (int, float) if plain is float else plain
    if not isinstance(value, kinds) or (plain is not bool and isinstance(value, bool)):
        raise ConfigError(f"{place} = {value!r}: expected {_expected(one)}")
    # Written so that a NaN, which no comparison holds for, is refused too.
    if plain is not bool and not one.metadata["low"] <= value <= one.metadata["high"]:
        raise ConfigError(f"{place} = {value!r}: expected {_expected(one)}")
    return value if plain in (bool, int) else float(value)


def _expected(one: dataclasses.Field[Any]) -> str:
    if isinstance(one.default, bool):
        return "true or false"
    kind = "a whole number" if isinstance(one.default, int) else "a number"
    low, high = one.metadata["low"], one.metadata["high"]
    return f"{kind} from {low:g} to {high:g}" if high != float("inf") else f"{kind} of at least {low:g}"
