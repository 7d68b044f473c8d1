"""A model on this device: pulled by the store, or a file used in place."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.engine import ModelSpec
from edgeserve.errors import ConfigError, StoreError
from edgeserve.models.sources.source import Progress
from edgeserve.models.wanted import Kind, Wanted


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model on this device. ``files``: role → path; ``size_bytes`` of all files."""

    name: str
    job: Kind
    engine: str
    files: Mapping[str, Path]
    size_bytes: int
    licence: str = "unknown"
    source: str = ""
    options: Mapping[str, object] = field(default_factory=dict)


def prepare(stored: StoredModel, tell: Callable[[Progress], None]) -> None:
    """Prepare a model once for this machine, if its engine's module has ``prepare``."""
    if stored.job == "vad":
        return
    engine_prepares = getattr(importlib.import_module(stored.engine.partition(":")[0]), "prepare", None)
    if engine_prepares is not None:
        spec = ModelSpec(stored.job, stored.name, stored.engine, stored.files, options=stored.options)
        engine_prepares(spec, lambda done, total: tell(Progress(stored.name, "prepare", done, total)))


def in_place(wanted: Wanted) -> StoredModel:
    files = dict(wanted.here or {})
    if not files:
        raise ConfigError(f"{wanted.name}: nothing to serve")
    try:
        size = sum(path.stat().st_size for path in files.values())
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}; {wanted.name} needs this file") from error
    return StoredModel(wanted.name, wanted.job, wanted.engine, files, size, "unknown", "local file", wanted.options)
