"""Fields that turn a model's thoughts on and off, and that shape its prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.fields import Fields, kind
from edgeserve.api.json_schema import JsonObject
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Record, listed
from edgeserve.api.values import Enum, Flag
from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Message

LEVELS: Mapping[str, bool | None] = MappingProxyType(
    {"none": False, "default": None, "auto": None}
    | dict.fromkeys(("minimal", "low", "medium", "high", "xhigh", "max"), True)
)
"""Levels of effort, and whether each turns thoughts on; None leaves them as the model has them."""
TYPES: Mapping[str, bool | None] = MappingProxyType(
    {"enabled": True, "disabled": False, "adaptive": None, "auto": None}
)
SWITCHES = ("enable_thinking", "thinking")
"""Variables by which chat templates turn thoughts on and off."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The wish of a field: thoughts on or off, and the level of effort. None and "": the model's defaults."""

    on: bool | None = None
    level: str = ""

    @classmethod
    def of_level(cls, level: str) -> Wish:
        on = LEVELS[level]
        return cls(on, level if on else "")


class ThinkingObject(Record):
    """The object by which Anthropic's, OpenRouter's and OpenAI's clients ask for thoughts."""

    type = Enum("of Anthropic's clients", tuple(TYPES))
    enabled = Flag("of OpenRouter's clients", default=True)
    effort = Enum("of OpenAI's clients", tuple(LEVELS))
    exclude = Flag("the answer leaves the thoughts out")

    def wish(self) -> Wish:
        if self.has("enabled"):
            return Wish(self.enabled)
        return Wish.of_level(self.effort) if self.effort else Wish(TYPES.get(self.type))


class Thought(Field[Wish]):
    """true, false, a level of effort, or an object."""

    def __init__(self, words: str) -> None:
        super().__init__(f"{words}: true, false, a level of effort, or an object", Wish())

    def read(self, fields: Fields, limits: Limits) -> Wish:
        given = fields.raw(self.name)
        if isinstance(given, bool):
            return Wish(given)
        if isinstance(given, str) and given in LEVELS:
            return Wish.of_level(given)
        if (nested := fields.object(self.name) if isinstance(given, dict) else None) is not None:
            return ThinkingObject(nested, limits).wish()
        if isinstance(given, str):
            raise fields.error(self.name, f"must be true, false or {listed(LEVELS)}")
        raise fields.error(self.name, f"must be true, false, a level of effort or an object, not {kind(given)}")

    def schema(self, limits: Limits) -> dict[str, Any]:
        levels = {"type": "string", "enum": list(LEVELS)}
        return {"oneOf": [{"type": "boolean"}, levels, ThinkingObject.describe(limits)]}


class Thinking(Record):
    """Fields of chat completions."""

    reasoning_effort = Enum("none turns thoughts off; other levels turn them on", tuple(LEVELS))
    enable_thinking = Thought("Qwen's")
    think = Thought("Ollama's")
    thinking = Thought("Anthropic's")
    reasoning = Thought("OpenRouter's")
    include_reasoning = Flag("the answer tells the thoughts", default=True)
    chat_template_kwargs = JsonObject("further variables of the model's chat template, such as enable_thinking")
    add_generation_prompt = Flag("the prompt ends in the beginning of the assistant's turn", default=True)
    continue_final_message = Flag("the last message is the beginning of the answer")

    def wishes(self) -> Wish:
        """The first wish that a field has, and the first level."""
        given = [self.enable_thinking, self.think, self.thinking, self.reasoning]
        if self.reasoning_effort:
            given.append(Wish.of_level(self.reasoning_effort))
        on = next((one.on for one in given if one.on is not None), None)
        written = self._variables()
        switch = next((written[name] for name in SWITCHES if isinstance(written.get(name), bool)), None)
        return Wish(on if switch is None else switch, next((one.level for one in given if one.level), ""))

    def variables(self) -> str:
        """Further variables of the chat template, as the text of a JSON object; empty without any."""
        written, level = self._variables(), self.wishes().level
        if level:
            written = {"reasoning_effort": level} | written
        return json.dumps(written, ensure_ascii=False) if written else ""

    def _variables(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.chat_template_kwargs) if self.chat_template_kwargs else {}
        return read

    def check_prompt(self, messages: tuple[Message, ...]) -> None:
        """Raises InvalidRequest for a continuation of another message than the assistant's last one."""
        if not self.continue_final_message:
            return
        if self.has("add_generation_prompt") and self.add_generation_prompt:
            raise self._wrong("cannot stand beside add_generation_prompt: the answer goes on in the last message")
        last = messages[-1]
        if last.role != "assistant" or last.tool_calls or not last.text:
            raise self._wrong("needs a last message of the assistant with a text, in which the answer goes on")

    def _wrong(self, text: str) -> InvalidRequest:
        return self.error("continue_final_message", text)
