"""Whether words are the end of a turn, for turns that end by their sense.

A transcript tells by its last mark. The pauses stand for how long to wait for more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

PAUSES: Mapping[str, float] = MappingProxyType({"low": 8.0, "medium": 4.0, "auto": 4.0, "high": 2.0})
"""Longest silence in seconds by eagerness, as OpenAI's documentation gives them."""
ENDS = re.compile(r"[.!?。！？][\"”’')\]]*\s*$")
TRAILS_OFF = re.compile(r"(?:\.\.|…)[\"”’')\]]*\s*$")
GOES_ON = re.compile(
    r"\b(?:and|but|or|so|because|if|when|the|a|an|to|of|for|with|in|on|at|um+|uh+|er+|well|like|my|your|is|are)"
    r"[.,]?\s*$",
    re.IGNORECASE,
)
"""Last words that ask for more. Whisper sets a full stop behind everything."""


def is_over(text: str) -> bool:
    """Whether the words are a whole sentence or question."""
    return bool(ENDS.search(text)) and not TRAILS_OFF.search(text) and not GOES_ON.search(text)
