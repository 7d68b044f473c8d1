"""Renderers of native answers in text: whole, and token by token."""

from __future__ import annotations

import json
from typing import Any

from edgeserve.api import failures, sse
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, TokenEvent


class TextBody:
    """``{"text"}`` of an answer."""

    stream = False
    media_type = "application/json"

    def __init__(self) -> None:
        self._text: list[str] = []

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, TokenEvent):
            self._text.append(event.text)
        return b""

    def end(self) -> bytes:
        return _json({"text": "".join(self._text)})

    def fail(self, error: EdgeserveError) -> bytes:
        return _json(failures.body(error))


class TokenStream(TextBody):
    """``{"token"}`` events, then ``{"done": true, "text"}``."""

    stream = True
    media_type = sse.MEDIA_TYPE

    def feed(self, index: int, event: Event) -> bytes:
        super().feed(index, event)
        return sse.event({"token": event.text}) if isinstance(event, TokenEvent) else b""

    def end(self) -> bytes:
        return sse.event({"done": True, "text": "".join(self._text)})

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event(failures.body(error))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
