"""The renderer of routes that answer with the size of a prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, PromptEvent


class PromptSize:
    """Folds the size of a prompt into ``{"input_tokens": …}``, behind the fields of ``head``."""

    stream = False
    media_type = "application/json"

    def __init__(self, head: Mapping[str, str] = MappingProxyType({})) -> None:
        self._head = head
        self._tokens = 0

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, PromptEvent):
            self._tokens = event.tokens
        return b""

    def end(self) -> bytes:
        return json.dumps({**self._head, "input_tokens": self._tokens}).encode()

    def fail(self, error: EdgeserveError) -> bytes | None:
        return None
