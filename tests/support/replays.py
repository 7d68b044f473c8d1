"""Requests of well-known clients that are played again."""

from __future__ import annotations

from typing import Any


def holds(found: Any, wanted: Any) -> bool:
    """Whether ``found`` has all that ``wanted`` has."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and holds(found[key], one) for key, one in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)
