"""Server-sent events (HTML standard, section 9.2): one ``data:`` line of JSON an event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MEDIA_TYPE = "text/event-stream"


_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""``json.dumps`` would make an encoder for each event."""


def event(value: Any) -> bytes:
    return b"data: " + _text(value).encode() + b"\n\n"


class Chunks:
    """Events whose objects begin with the same members, which are written once. ``members``: at least one."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._begun = f"data: {_text(members)[:-1]},"

    def event(self, members: Mapping[str, Any]) -> bytes:
        """``members``: further ones, at least one."""
        return f"{self._begun}{_text(members)[1:]}\n\n".encode()


def named(name: str, value: Any) -> bytes:
    """An event with a line of its name before its data."""
    return b"event: " + name.encode() + b"\n" + event(value)


def named_text(name: str, text: str) -> bytes:
    """As ``named``, of data that are JSON text already."""
    return f"event: {name}\ndata: {text}\n\n".encode()


DONE = b"data: [DONE]\n\n"
"""The end of a stream in OpenAI's dialect."""
