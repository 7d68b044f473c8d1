"""JSON lines: one object a line, no marker at the end. Ollama's clients read each line by itself."""

from __future__ import annotations

import json
from typing import Any

MEDIA_TYPE = "application/x-ndjson"
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def line(value: Any) -> bytes:
    return ENCODER.encode(value).encode() + b"\n"


def whole(value: Any) -> bytes:
    """A large object, written in pieces: no other thread runs while ``encode`` writes one in a single call."""
    return "".join(ENCODER.iterencode(value)).encode()
