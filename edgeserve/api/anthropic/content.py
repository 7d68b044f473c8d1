"""The blocks of an answer: collected, or sent as they come."""

from __future__ import annotations

import json
import secrets
from typing import Any, Literal, Protocol

from edgeserve.api import sse
from edgeserve.messages import ToolCall

Kind = Literal["text", "thinking"]
SIGNED: dict[Kind, dict[str, str]] = {"text": {}, "thinking": {"signature": ""}}
"""Further fields of a block. Thoughts of Anthropic's models are signed; these are not."""


class Content(Protocol):
    """Takes an answer piece by piece. Each method returns the bytes for the stream."""

    def add(self, kind: Kind, text: str) -> bytes:
        """Add text to the last block if it is of the kind, else to a new one."""
        ...

    def call(self, call: ToolCall) -> bytes: ...

    def close(self) -> bytes:
        """End the last block."""
        ...


class Collected:
    """The blocks of a whole answer."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Kind, list[str]] | dict[str, Any]] = []

    def add(self, kind: Kind, text: str) -> bytes:
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, tuple) and last[0] == kind:
            last[1].append(text)
        else:
            self._blocks.append((kind, [text]))
        return b""

    def call(self, call: ToolCall) -> bytes:
        self._blocks.append(_called(call, json.loads(call.arguments)))
        return b""

    def close(self) -> bytes:
        return b""

    def blocks(self) -> list[dict[str, Any]]:
        return [one if isinstance(one, dict) else _block(one[0], "".join(one[1])) for one in self._blocks]


class Told:
    """The blocks of a streamed answer. They count from 0, and one ends before the next begins."""

    def __init__(self) -> None:
        self._index = 0
        self._open: Kind | None = None

    def add(self, kind: Kind, text: str) -> bytes:
        begun = b""
        if self._open != kind:
            begun = self.close() + self._event("content_block_start", content_block=_block(kind, ""))
            self._open = kind
        return begun + self._delta(f"{kind}_delta", kind, text)

    def call(self, call: ToolCall) -> bytes:
        told = (
            self.close()
            + self._event("content_block_start", content_block=_called(call, {}))
            + self._delta("input_json_delta", "partial_json", call.arguments)
            + self._event("content_block_stop")
        )
        self._index += 1
        return told

    def close(self) -> bytes:
        if self._open is None:
            return b""
        signed = self._delta("signature_delta", "signature", "") if self._open == "thinking" else b""
        told = signed + self._event("content_block_stop")
        self._open = None
        self._index += 1
        return told

    def _delta(self, kind: str, name: str, text: str) -> bytes:
        return self._event("content_block_delta", delta={"type": kind, name: text})

    def _event(self, name: str, **values: Any) -> bytes:
        return sse.named(name, {"type": name, "index": self._index, **values})


def _block(kind: Kind, text: str) -> dict[str, Any]:
    return {"type": kind, kind: text, **SIGNED[kind]}


def _called(call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
    name = call.id or f"toolu_{secrets.token_hex(12)}"
    return {"type": "tool_use", "id": name, "name": call.name, "input": arguments}
