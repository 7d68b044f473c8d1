"""Fields that the routes of all engines share."""

from __future__ import annotations

from edgeserve.api import cache_salt
from edgeserve.api.fields import NAME_CHARS
from edgeserve.api.keep_alive import KeepAlive
from edgeserve.api.schema import Record
from edgeserve.api.values import Text

MAX_TOKENS = 1_000_000
"""Tokens of an answer that a client may ask for. The engine's own cap is lower."""


class Question(Record):
    """A request to any engine."""

    model = Text("a served model, an alias, or the name of its engine; left out: the default", limit=NAME_CHARS)
    keep_alive = KeepAlive()


class Prompt(Question):
    """A request to a language model, which may remember past prompts."""

    prompt_cache_key = Text(
        "caches of past prompts serve requests of the same key and the same value only", limit=cache_salt.LIMIT
    )
