"""Calls of tools as OpenAI's clients write them: in past messages, and in answers."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from edgeserve.api.fields import Fields, kind
from edgeserve.api.json_body import check_size
from edgeserve.api.json_schema import ENCODER
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Object, Record
from edgeserve.api.tools import ToolName
from edgeserve.api.values import Enum, Ignored, Text
from edgeserve.messages import ToolCall

ALL_ARGUMENTS = "the text of all arguments"


class Arguments(Field[str]):
    """The arguments of a past call: an object, or a text, which most often is that of a JSON object.

    A model may have written another text. It goes back to the model as it is.
    """

    def __init__(self) -> None:
        super().__init__("the text of a JSON object, or the object", "{}")

    def read(self, fields: Fields, limits: Limits) -> str:
        given, field = fields.raw(self.name), fields.full(self.name)
        if isinstance(given, dict):
            try:
                return "".join(ENCODER.iterencode(given))
            except ValueError:  # 1e999 was read as infinite
                raise fields.error(self.name, "holds a number beyond the range of a float") from None
        if not isinstance(given, str):
            raise fields.error(self.name, f"must be a text or an object, not {kind(given)}")
        check_size(given.encode(errors="replace"), field, field)
        return given or "{}"

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": ["string", "object"]}


class CalledFunction(Record):
    name = ToolName()
    arguments = Arguments()


class Called(Record):
    """A call in an assistant's message."""

    id = Text("by which a tool's message names the call", required=True)
    type = Enum("", ("function",), default="function")
    function = Object("the function and its arguments", CalledFunction, required=True)
    index = Ignored("the position in a stream, which clients send back")

    def call(self) -> ToolCall:
        return ToolCall(self.function.name, self.function.arguments, self.id)


def check_arguments(messages: Iterable[Fields]) -> None:
    """Raises InvalidRequest where the arguments of all calls hold too many values, before any is read.

    A chat template gets all of them as values at once.
    """
    check_together([text for one in messages for text in _arguments(one)], "messages")


def check_together(arguments: Sequence[str], param: str) -> None:
    """As ``check_arguments``, of arguments whose calls the field ``param`` holds."""
    if len(arguments) > 1:  # a single one is checked by itself
        check_size(",".join(arguments).encode(errors="replace"), f"{param}: {ALL_ARGUMENTS}", param)


def _arguments(message: Fields) -> Iterator[str]:
    """The texts of the arguments in a message that is not checked yet."""
    calls = message.raw("tool_calls")
    functions = [one.get("function") for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    for function in (*functions, message.raw("function_call")):
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            yield arguments


def body(call: ToolCall) -> dict[str, Any]:
    """A call as answers write it, with an id of its own."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id or f"call_{secrets.token_hex(12)}", "type": "function", "function": function}
