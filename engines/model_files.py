"""Whether a model's files are there, before a runtime is asked to open them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from edgeserve.errors import EngineFailure


def require(paths: Iterable[Path]) -> None:
    """Raises EngineFailure naming the first that is not a file."""
    for path in paths:
        if not path.is_file():
            raise EngineFailure(f"{path}: no such file; pull the model again with `edgeserve pull`")
