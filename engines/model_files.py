"""A check that a model's files exist, before a runtime opens them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from edgeserve.errors import EngineFailure


def require(paths: Iterable[Path]) -> None:
    """Raise EngineFailure naming the first path that is not a file."""
    for path in paths:
        if not path.is_file():
            raise EngineFailure(f"{path}: no such file; pull the model again with `edgeserve pull`")
