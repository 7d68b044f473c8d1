"""JSON text in pieces: no call takes long, and a part that was written before is not written again."""

from __future__ import annotations

import json
from typing import Any


class Fragment(str):
    """JSON text, which stands in a larger text as it is."""

    __slots__ = ()


SPACED, COMPACT = (", ", ": "), (",", ":")
"""Separators, as ``json.dumps`` has them by itself, and without spaces."""


def written(value: Any, depth: int = 5, separators: tuple[str, str] = SPACED) -> str:
    """JSON, as ``json.dumps`` writes it, made in one call for each token: no other thread runs during a call.

    Values deeper than ``depth`` hold no ``Fragment``.
    """
    comma, colon = separators
    if isinstance(value, Fragment):
        return value
    if depth and isinstance(value, dict):
        parts = ((json.dumps(name, ensure_ascii=False), one) for name, one in value.items())
        return "{" + comma.join(name + colon + written(one, depth - 1, separators) for name, one in parts) + "}"
    if depth and isinstance(value, list):
        return "[" + comma.join(written(one, depth - 1, separators) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False, separators=separators)
