"""Calls of tools in an answer: ``<tool_call>`` blocks anywhere, or an answer that is JSON from its start."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from edgeserve import strict_json
from edgeserve.messages import ChatEvent, FinishEvent, ReadEvent, TokenEvent, Tool, ToolCall, ToolCallEvent

OPENING, CLOSING = "<tool_call>", "</tool_call>"

# Possessive quantifiers (*+, ?+): with thousands of blanks, others backtrack over every split of them, at every token.
HEAD = r"\s*+(?:<\|python_tag\|>|```(?:json)?+)?+\s*+(?:\[\s*+)?+"
JSON_CALL = HEAD + r'\{\s*+"(?:name|type|function|arguments|parameters)"'
UNDECIDED = r'\s*+(?:<[|a-z_]*+>?+|`{1,3}+[json]*+)?+\s*+(?:\[\s*+)?+(?:\{\s*+(?:"[a-z]*+)?+)?+'
"""Matches a text that may yet become the beginning of a JSON call."""
MAX_UNDECIDED = 1000
"""Characters. A longer undecided text is no call."""
BETWEEN = r"(?:[\s;,\[\]]|<\|python_tag\|>|```(?:json)?)*"


def with_calls(
    events: Iterable[ChatEvent | None], tools: Iterable[Tool], *, several: bool
) -> Iterator[ChatEvent | None]:
    """The events of an answer, with calls of ``tools`` as ToolCallEvents; only the first call unless ``several``.

    Text that only looks like a call stays text. None passes through. An answer that begins with what may become a call
    begins with a ReadEvent.
    """
    reader = CallReader({tool.name for tool in tools})
    called = told = False
    for event in events:
        if isinstance(event, TokenEvent):
            found = reader.feed(event.text)
            if not told and not found:
                yield ReadEvent()
            told = True
        else:
            found = reader.flush() if isinstance(event, FinishEvent) else []
        for one in found:
            if isinstance(one, str):
                yield event if isinstance(event, TokenEvent) and one == event.text else TokenEvent(one)
            elif several or not called:
                called = True
                yield ToolCallEvent(one)
        if isinstance(event, FinishEvent) and called and event.reason == "stop":
            yield dataclasses.replace(event, reason="tool_calls")
        elif not isinstance(event, TokenEvent):
            yield event


class CallReader:
    """Separates streamed text into plain text and complete calls of the tools ``names``."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._pending = ""
        self._read = self._beginning

    def feed(self, text: str) -> list[str | ToolCall]:
        self._pending += text
        found: list[str | ToolCall] = []
        while self._read(found):
            pass
        return [one for one in found if one]

    def flush(self) -> list[str | ToolCall]:
        """The rest of the text, after the last ``feed``."""
        text, self._pending = self._pending, ""
        if self._read == self._inside:
            return [*self._calls(text)] or [OPENING + text]
        calls = self._calls(text) if self._read == self._to_the_end else []
        return [*calls] or ([text] if text else [])

    # States of the reader. Each consumes pending text, and returns whether the next state can continue with the rest.

    def _beginning(self, found: list[str | ToolCall]) -> bool:
        if re.match(JSON_CALL, self._pending):
            self._read = self._to_the_end
        elif len(self._pending) > MAX_UNDECIDED or not re.fullmatch(UNDECIDED, self._pending):
            self._read = self._text
            return True
        return False

    def _to_the_end(self, found: list[str | ToolCall]) -> bool:
        return False

    def _text(self, found: list[str | ToolCall]) -> bool:
        text, opening, rest = self._pending.partition(OPENING)
        if opening:
            found.append(text if text.strip() else "")
            self._pending, self._read = rest, self._inside
            return True
        held = next((size for size in range(len(OPENING) - 1, 0, -1) if text.endswith(OPENING[:size])), 0)
        cut = len(text) - held
        found.append(text[:cut])
        self._pending = text[cut:]
        return False

    def _inside(self, found: list[str | ToolCall]) -> bool:
        text, closing, rest = self._pending.partition(CLOSING)
        if not closing:
            return False
        calls = self._calls(text)
        found += calls or [OPENING + text + CLOSING]
        self._pending, self._read = rest, self._after if calls else self._text
        return True

    def _after(self, found: list[str | ToolCall]) -> bool:
        """Drops white space between two calls."""
        self._pending = self._pending.lstrip()
        if self._pending:
            self._read = self._text
        return bool(self._pending)

    def _calls(self, text: str) -> list[ToolCall]:
        """The calls in ``text``. None of them counts when the text holds anything else, or JSON that is not strict."""
        calls = []
        at = _skip(text, 0)
        while at < len(text):
            try:
                value, at = strict_json.raw_decode(text, at)
            except ValueError:
                return []
            call = _call(value)
            if call is None or call.name not in self._names:
                return []
            calls.append(call)
            at = _skip(text, at)
        return calls


def _skip(text: str, at: int) -> int:
    found = re.compile(BETWEEN).match(text, at)
    return found.end() if found else at


def _call(value: Any) -> ToolCall | None:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]  # as OpenAI writes it
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        try:
            arguments = strict_json.loads(arguments)
        except ValueError:
            return None
    if not isinstance(arguments, dict):
        return None
    return ToolCall(value["name"], json.dumps(arguments, ensure_ascii=False))
