"""Limits for MLX: bytes to allocate, cache and pin. A pure function; the engine
sets them (``engine_abilities.Limited``).

The governor computes them anew before each load, since other programs' memory changes.
The four candidates: docs/apple.md.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping

from edgeserve.dataclass import dataclass
from edgeserve.system.readings import Readings
from edgeserve.units import GB

FRACTION_OF_TOTAL = 0.70
SYSTEM_RESERVE = 3 * GB
SAFETY_MARGIN = 3 * GB
"""Available memory that is left to other programs."""
LEAST = 2 * GB
"""A candidate must be larger to be valid. MLX cannot work in less, and a smaller figure only shows that memory is short
at the moment."""
CACHE_FRACTION = 0.25
WIRED_SINCE = (15, 0)
"""The macOS version from which memory can be pinned."""


@dataclass(frozen=True, slots=True)
class MetalLimits:
    """Bytes. ``wired`` is None where the system cannot pin. ``winner`` names the candidate that set ``memory``."""

    memory: int
    cache: int
    wired: int | None
    winner: str
    candidates: Mapping[str, int]


def limits(readings: Readings, macos: tuple[int, ...] = (), *, cache_fraction: float = CACHE_FRACTION) -> MetalLimits:
    """The smallest valid one of four candidates; ``LEAST`` when none is valid.

    ``macos``: the system's version, () elsewhere.
    """
    recommended = readings.accelerator.recommended or 0
    candidates = {
        "fraction_of_total": int(readings.total * FRACTION_OF_TOTAL),
        "total_minus_reserve": readings.total - SYSTEM_RESERVE,
        "adaptive_available": readings.available - SAFETY_MARGIN,
    }
    if recommended:
        candidates["apple_recommended"] = recommended
    valid = {name: size for name, size in candidates.items() if size > LEAST}
    winner = min(valid, key=lambda name: valid[name], default="least")
    memory = valid.get(winner, LEAST)
    wired = min(recommended, memory) if recommended and macos >= WIRED_SINCE else None
    return MetalLimits(memory, int(memory * cache_fraction), wired, winner, candidates)


def macos_version() -> tuple[int, ...]:
    """The version of macOS, such as (15, 1); empty on other systems."""
    return tuple(int(part) for part in platform.mac_ver()[0].split(".") if part)
