"""Requests of well-known clients that are played again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def steps(folder: Path) -> list[Any]:
    """A parameter for each request of the recordings in the folder, named by recording and step."""
    return [
        pytest.param(step, id=f"{path.stem}: {step['about']}")
        for path in sorted(folder.glob("*.json"))
        for step in json.loads(path.read_text(encoding="utf-8"))
    ]


def holds(found: Any, wanted: Any) -> bool:
    """Whether ``found`` has all that ``wanted`` has."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and holds(found[key], one) for key, one in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)
