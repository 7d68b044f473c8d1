"""Whether words are the end of a turn, for turns that end by their sense.

The last mark of a transcript decides. The pauses say how long to wait for more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

PAUSES: Mapping[str, float] = MappingProxyType({"low": 8.0, "medium": 4.0, "auto": 4.0, "high": 2.0})
"""Longest silence in seconds by eagerness, as OpenAI's documentation gives them."""
LEAST_PAUSES: Mapping[str, float] = MappingProxyType({"low": 0.8, "medium": 0.4, "auto": 0.4, "high": 0.2})
"""Shortest silence in seconds behind words that are over, by eagerness."""
ENDS = re.compile(r"[.!?。！？][\"”’')\]]*\s*$")
TRAILS_OFF = re.compile(r"(?:\.\.|…)[\"”’')\]]*\s*$")
GOES_ON = re.compile(
    r"\b(?:and|but|or|so|because|if|when|the|a|an|to|of|for|with|in|on|at|by|from|into|than|as|um+|uh+|er+|hm+|well"
    r"|like|my|your|our|their|is|are|which|whose|whether|although|unless|until|while"
    r"|und|oder|aber|weil|dass|et|mais|pero|porque)[.,]?\s*$",
    re.IGNORECASE,
)
"""Last words that ask for more. Whisper sets a full stop behind everything."""


def is_over(text: str) -> bool:
    """Whether the words are a whole sentence or question."""
    return bool(ENDS.search(text)) and not TRAILS_OFF.search(text) and not GOES_ON.search(text)
