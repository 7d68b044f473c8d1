"""Objects by their import strings: the server knows engines by nothing else."""

from __future__ import annotations

import importlib
from typing import Any

from edgeserve.engine import Engine, ModelSpec


def find(import_string: str) -> Any:
    """The object that ``module:name`` names."""
    module, _, name = import_string.partition(":")
    return getattr(importlib.import_module(module), name)


def make_engine(spec: ModelSpec) -> Engine:
    """Make the engine that the spec names. Nothing is loaded. Raises ConfigError for a wrong option."""
    engine: Engine = find(spec.engine)(spec)
    return engine
