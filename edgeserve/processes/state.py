"""Rung and figures of an engine in a worker, for the serving process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgeserve.engine import Footprint


@dataclass(frozen=True, slots=True)
class EngineState:
    """Figures as of the engine's last change; fields as in ``edgeserve.engine``. ``rung``: the number of a Rung."""

    rung: int = 0
    footprint: Footprint = field(default_factory=Footprint)
    savings: Mapping[str, int] = field(default_factory=dict)
    context_tokens: int | None = None
    slots: int = 1
    starved: bool = False
    confined: Mapping[str, str] = field(default_factory=dict)
    """Layers of the worker's confinement: on, or off and why."""
