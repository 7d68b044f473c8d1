"""Server-sent events (HTML standard, section 9.2): one ``data:`` line of JSON an event."""

from __future__ import annotations

import json
from typing import Any

MEDIA_TYPE = "text/event-stream"


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def named(name: str, value: Any) -> bytes:
    """An event with a line of its name before its data."""
    return b"event: " + name.encode() + b"\n" + event(value)


def named_text(name: str, text: str) -> bytes:
    """As ``named``, of data that are JSON text already."""
    return f"event: {name}\ndata: {text}\n\n".encode()


DONE = b"data: [DONE]\n\n"
"""The end of a stream in OpenAI's dialect."""
