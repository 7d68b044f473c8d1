"""Parameters of OpenAI's that change nothing here: accepted as long as they ask for nothing that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.fields import Fields

HINTS = {"user", "metadata", "safety_identifier", "reasoning_effort", "verbosity", "prediction"}
HINTS |= {"prompt_cache_retention", "prompt_cache_options"}
"""Of any value: they tell who asks, or what OpenAI may do to answer sooner."""

ONLY: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {"store": (False,), "service_tier": ("auto", "default"), "modalities": (["text"],)}
)
"""Of these values, which are what happens here anyway."""

UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {
        "audio": "chat answers in text; /v1/audio/speech speaks it",
        "function_call": "it was replaced by tool_choice",
        "functions": "they were replaced by tools",
        "moderation": "this server moderates nothing",
        "web_search_options": "this server searches nothing",
    }
)

NAMES = HINTS | set(ONLY) | set(UNAVAILABLE)


def check(fields: Fields) -> None:
    """Raises InvalidRequest naming the parameter that asks for more."""
    for name, values in ONLY.items():
        if fields.has(name) and fields.raw(name) not in values:
            listed = " or ".join(map(_written, values))
            raise fields.error(name, f"is not supported by this server unless it is {listed}; leave it out")
    for name, why in UNAVAILABLE.items():
        if fields.has(name):
            raise fields.error(name, f"is not supported by this server: {why}; leave it out")


def _written(value: Any) -> str:
    return "false" if value is False else str(value).replace("'", '"')
