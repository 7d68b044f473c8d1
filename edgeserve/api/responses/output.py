"""The output of a response: its items as they grow, and the events that tell of their growth."""

from __future__ import annotations

import secrets
from typing import Any

from edgeserve.api import sse
from edgeserve.api.openai.logprobs import chat_logprobs
from edgeserve.messages import TokenLogprob, ToolCall

Json = dict[str, Any]


class Events:
    """Writes events with their numbers. A response that is no stream has none."""

    def __init__(self, *, stream: bool) -> None:
        self.stream = stream
        self._number = 0

    def write(self, kind: str, fields: Json) -> bytes:
        if not self.stream:
            return b""
        event = {"type": kind, "sequence_number": self._number} | fields
        self._number += 1
        return sse.named(kind, event)


class Output:
    """All items so far. Each method returns the events of what it does. ``items`` are whole after ``close``."""

    def __init__(self, events: Events) -> None:
        self.items: list[Json] = []
        self._events = events
        self._kind = ""
        """Type of the item that still grows: message, reasoning, or empty."""
        self._texts: list[str] = []
        self._logprobs: list[TokenLogprob] = []

    def say(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> bytes:
        """Add text to a message."""
        events = self._open("message")
        self._texts.append(text)
        self._logprobs += logprobs
        return events + self._tell("response.output_text.delta", {"delta": text, "logprobs": _logged(logprobs)})

    def think(self, text: str) -> bytes:
        """Add text to thoughts."""
        events = self._open("reasoning")
        self._texts.append(text)
        return events + self._tell("response.reasoning_text.delta", {"delta": text})

    def call(self, call: ToolCall) -> bytes:
        """Add a whole call."""
        events = self.close()
        item: Json = {
            "id": _name("fc"),
            "type": "function_call",
            "call_id": call.id or _name("call"),
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
        }
        self.items.append(item)
        events += self._item("added", item)
        place = {"item_id": item["id"], "output_index": len(self.items) - 1}
        events += self._events.write("response.function_call_arguments.delta", place | {"delta": call.arguments})
        told = {"name": call.name, "arguments": call.arguments}
        events += self._events.write("response.function_call_arguments.done", place | told)
        item |= {"arguments": call.arguments, "status": "completed"}
        return events + self._item("done", item)

    def close(self, status: str = "completed", *, told: bool = True) -> bytes:
        """End the item that still grows, if one does. Without ``told`` no events say so."""
        if not self._kind:
            return b""
        text, item = "".join(self._texts), self.items[-1]
        part: Json = {"type": "reasoning_text", "text": text}
        logged: Json = {}
        if self._kind == "message":
            logged = {"logprobs": _logged(self._logprobs)}
            part = {"type": "output_text", "text": text, "annotations": []} | logged
            item["status"] = status
        item["content"] = [part]
        kind = "output_text" if self._kind == "message" else "reasoning_text"
        events = b""
        if told:
            events = self._tell(f"response.{kind}.done", {"text": text} | logged)
            events += self._tell("response.content_part.done", {"part": part})
            events += self._item("done", item)
        self._kind, self._texts, self._logprobs = "", [], []
        return events

    def _open(self, kind: str) -> bytes:
        """Begin an item, unless one of this type grows already."""
        if self._kind == kind:
            return b""
        events = self.close()
        self._kind = kind
        item: Json
        if kind == "message":
            item = {"id": _name("msg"), "type": kind, "role": "assistant", "status": "in_progress", "content": []}
            part: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item = {"id": _name("rs"), "type": kind, "summary": [], "content": []}
            part = {"type": "reasoning_text", "text": ""}
        self.items.append(item)
        return events + self._item("added", item) + self._tell("response.content_part.added", {"part": part})

    def _item(self, what: str, item: Json) -> bytes:
        fields = {"output_index": len(self.items) - 1, "item": item}
        return self._events.write(f"response.output_item.{what}", fields)

    def _tell(self, kind: str, fields: Json) -> bytes:
        """An event of the only part of the last item."""
        place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1, "content_index": 0}
        return self._events.write(kind, place | fields)


def _logged(logprobs: Any) -> list[Any]:
    found = chat_logprobs(logprobs)
    return found["content"] if found else []


def _name(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"
