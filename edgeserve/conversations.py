"""Conversations on disk: the options of engines that keep them, and what nobody keeps any more."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from edgeserve.engine import ModelSpec
from edgeserve.models import catalog
from edgeserve.named import find

STATES, STATES_MB = "prefix_cache_dir", "prefix_cache_disk_mb"
"""Options of the engines that keep conversations on disk: the folder, and the bound."""


def sweep(specs: Iterable[ModelSpec]) -> None:
    """Remove conversations that are too old, and those of models that keep none. Never raises.

    Workers cannot: each writes to the folder of its own model alone.
    """
    off: dict[str, set[str]] = {}
    for spec in specs:
        if folder := spec.options.get(STATES):
            models = off.setdefault(str(folder), set())
            if spec.options.get(STATES_MB) == 0:
                models.add(spec.id)
    for folder, models in off.items():
        find(catalog.SWEEP)(Path(folder), models)
