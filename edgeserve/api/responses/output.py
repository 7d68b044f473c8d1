"""The output of a response: its items as they grow, and the events about them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.api import sse
from edgeserve.api.fragments import COMPACT, Fragment, written
from edgeserve.api.openai.logprobs import chat_logprobs
from edgeserve.messages import TokenLogprob, ToolCall

Json = dict[str, Any]

DEPTH = 8
"""Levels of an event, of a response or of an item within which ``Fragment`` may stand."""


class Events:
    """Writes events with their numbers. A response that is no stream has none."""

    def __init__(self, *, stream: bool) -> None:
        self.stream = stream
        self._number = 0

    def write(self, kind: str, fields: Json, *, long: bool = False) -> bytes:
        """``long``: the fields may hold a ``Fragment``."""
        if not self.stream:
            return b""
        event = {"type": kind, "sequence_number": self._number} | fields
        self._number += 1
        return sse.named_text(kind, written(event, DEPTH, COMPACT)) if long else sse.named(kind, event)


class Output:
    """All items so far. Each method writes the events of what it does as they are asked for.

    ``items`` are whole after ``closing``. The log probabilities of a message are a ``Fragment``: as values they would
    take five times its memory.
    """

    def __init__(self, events: Events) -> None:
        self.items: list[Json] = []
        self._events = events
        self._kind = ""
        """Type of the item that still grows: message, reasoning, or empty."""
        self._texts: list[str] = []
        self._logprobs: list[str] = []
        """JSON text of each token."""

    def say(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> Iterator[bytes]:
        """Add text to a message."""
        yield from self._open("message")
        self._texts.append(text)
        logged = _logged(logprobs)
        self._logprobs += logged
        fields = {"delta": text, "logprobs": _listed(logged)}
        yield self._tell("response.output_text.delta", fields, long=bool(logged))

    def think(self, text: str) -> Iterator[bytes]:
        """Add text to thoughts."""
        yield from self._open("reasoning")
        self._texts.append(text)
        yield self._tell("response.reasoning_text.delta", {"delta": text})

    def call(self, call: ToolCall) -> Iterator[bytes]:
        """Add a whole call."""
        yield from self.closing()
        item: Json = {
            "id": _name("fc"),
            "type": "function_call",
            "call_id": call.id or _name("call"),
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
        }
        self.items.append(item)
        events = self._item("added", item)
        place = {"item_id": item["id"], "output_index": len(self.items) - 1}
        events += self._events.write("response.function_call_arguments.delta", place | {"delta": call.arguments})
        told = {"name": call.name, "arguments": call.arguments}
        events += self._events.write("response.function_call_arguments.done", place | told)
        item |= {"arguments": call.arguments, "status": "completed"}
        yield events + self._item("done", item)

    def closing(self, status: str = "completed") -> Iterator[bytes]:
        """End the item that still grows, if one does: at once. Each event is written as it is asked for."""
        if not self._kind:
            return iter(())
        kind, text, item = self._kind, "".join(self._texts), self.items[-1]
        part: Json = {"type": "reasoning_text", "text": text}
        logged: Json = {}
        if kind == "message":
            logged = {"logprobs": _listed(self._logprobs)}
            part = {"type": "output_text", "text": text, "annotations": []} | logged
            item["status"] = status
        item["content"] = [part]
        self._kind, self._texts, self._logprobs = "", [], []
        return self._closing("output_text" if kind == "message" else "reasoning_text", part, {"text": text} | logged)

    def _closing(self, kind: str, part: Json, said: Json) -> Iterator[bytes]:
        yield self._tell(f"response.{kind}.done", said, long=True)
        yield self._tell("response.content_part.done", {"part": part}, long=True)
        yield self._item("done", self.items[-1], long=True)

    def _open(self, kind: str) -> Iterator[bytes]:
        """Begin an item, unless one of this type grows already."""
        if self._kind == kind:
            return
        yield from self.closing()
        self._kind = kind
        item: Json
        if kind == "message":
            item = {"id": _name("msg"), "type": kind, "role": "assistant", "status": "in_progress", "content": []}
            part: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item = {"id": _name("rs"), "type": kind, "summary": [], "content": []}
            part = {"type": "reasoning_text", "text": ""}
        self.items.append(item)
        yield self._item("added", item) + self._tell("response.content_part.added", {"part": part})

    def _item(self, what: str, item: Json, *, long: bool = False) -> bytes:
        fields = {"output_index": len(self.items) - 1, "item": item}
        return self._events.write(f"response.output_item.{what}", fields, long=long)

    def _tell(self, kind: str, fields: Json, *, long: bool = False) -> bytes:
        """An event of the only part of the last item."""
        place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1, "content_index": 0}
        return self._events.write(kind, place | fields, long=long)


def _logged(logprobs: Sequence[TokenLogprob]) -> list[str]:
    """JSON text of each token, in ASCII: one wide character would make the whole text four times as large."""
    found = chat_logprobs(logprobs)
    return [json.dumps(one, separators=COMPACT) for one in found["content"]] if found else []


def _listed(logged: Sequence[str]) -> list[str] | Fragment:
    return Fragment("[" + ",".join(logged) + "]") if logged else []


def _name(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"
