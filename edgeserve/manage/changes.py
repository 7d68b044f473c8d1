"""The differences between two settings, and how each takes effect. A pure decision; no engine is asked.

1. A key that only names, ranks or times a model changes in place.
2. Any other key of a model's table replaces the model: its answers end whole, then another engine takes its place.
3. The keys of ``TUNABLE`` in other tables take effect at once.
4. All other keys need a restart of the server.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from edgeserve.config import Config
from edgeserve.dataclass import dataclass
from edgeserve.jobs import table_of
from edgeserve.memory.policy import MemoryPolicy

OF_MODELS = frozenset({"aliases", "default", "keep_alive", "pinned", "preload", "when"})
"""Keys of a model that change in place. ``preload`` matters at the next start only."""
AT_START = frozenset({"enabled", "override_memory_mb", "max_new_tokens"})
"""Keys of [memory] that the governor, or the engines, read once."""
TUNABLE: Mapping[str, frozenset[str]] = {
    "server": frozenset({"log_level", "queue_limit"}),
    "residency": frozenset({"warm_after", "idle_timeout", "check_interval"}),
    "memory": frozenset(one.name for one in dataclasses.fields(MemoryPolicy)) - AT_START,
}
"""Keys that change while the server runs, by table."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The way from one settings to another.

    Fields:
        added, removed, replaced  ids of models
        tuned                     ids of models whose keys change in place
        changed                   keys that change at once, such as "[residency] warm_after"
        fixed                     keys that need a restart of the server
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in dataclasses.fields(self))


def changes(old: Config, new: Config) -> Changes:
    """The differences of two settings. Every list is in the order of ``new``, or of ``old`` for what is gone."""
    kept = {model: one for model, one in new.models.items() if model in old.models}
    differing = {model: _keys(old.models[model], one) for model, one in kept.items()}
    replaced = tuple(model for model, keys in differing.items() if keys - OF_MODELS)
    tuned = tuple(model for model, keys in differing.items() if keys and model not in replaced)
    differences = [(table, key) for table in TUNABLE for key in _ordered(getattr(old, table), getattr(new, table))]
    return Changes(
        added=tuple(model for model in new.models if model not in old.models),
        removed=tuple(model for model in old.models if model not in new.models),
        replaced=replaced,
        tuned=tuned,
        changed=(
            *(f"[{table}] {key}" for table, key in differences if key in TUNABLE[table]),
            *(f"[{table_of(model)}] {key}" for model in tuned for key in sorted(differing[model])),
        ),
        fixed=tuple(f"[{table}] {key}" for table, key in differences if key not in TUNABLE[table]),
    )


def effective(old: Config, new: Config) -> Config:
    """The settings in force after a change from ``old`` to ``new``: keys that need a restart keep their old value."""
    kept = {}
    for table, tunable in TUNABLE.items():
        before, after = getattr(old, table), getattr(new, table)
        fixed = {one.name: getattr(before, one.name) for one in dataclasses.fields(before) if one.name not in tunable}
        kept[table] = dataclasses.replace(after, **fixed)
    return dataclasses.replace(new, **kept)


def _keys(old: Any, new: Any) -> frozenset[str]:
    return frozenset(_ordered(old, new))


def _ordered(old: Any, new: Any) -> Iterator[str]:
    """Names of the fields that differ, in the order of their declaration."""
    names = (one.name for one in dataclasses.fields(old))
    return (name for name in names if getattr(old, name) != getattr(new, name))
