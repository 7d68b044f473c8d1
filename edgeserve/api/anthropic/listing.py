"""Models in the shape of Anthropic's list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CREATED = "2025-01-01T00:00:00Z"
"""Time of creation of every model, as in OpenAI's list: files of models have none that matters."""


def model(name: str) -> dict[str, Any]:
    return {"type": "model", "id": name, "display_name": name, "created_at": CREATED, "lifecycle": "active"}


def page(names: Sequence[str]) -> dict[str, Any]:
    """All models on one page."""
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
    return {"data": [model(name) for name in names], "has_more": False, **ends}
