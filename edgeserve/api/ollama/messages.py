"""Messages in Ollama's dialect: pictures beside the text, arguments of calls as objects, results without ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgeserve.api.calls import CalledFunction
from edgeserve.api.content import Pending
from edgeserve.api.conversation import ROLES, Conversation, OpenCalls
from edgeserve.api.fields import NAME_CHARS, Fields, clipped
from edgeserve.api.limits import Limits
from edgeserve.api.ollama.fields import Images
from edgeserve.api.schema import Field, Object, Objects, Record, listed
from edgeserve.api.tools import DeclaredFunction
from edgeserve.api.values import Ignored, Text
from edgeserve.messages import Message, TextPart, Tool, ToolCall


class RoleField(Field[str]):
    """Who speaks, in any case of letters."""

    def __init__(self) -> None:
        super().__init__("who speaks, in any case of letters", "", required=True)

    def read(self, fields: Fields, limits: Limits) -> str:
        role = fields.required_text(self.name, limit=NAME_CHARS).lower()
        if role not in ROLES:
            raise fields.error(self.name, f"must be {listed(ROLES)}, not {clipped(role, 80)!r}")
        return role

    def schema(self, limits: Limits) -> dict[str, Any]:
        either = ("".join(f"[{letter}{letter.upper()}]" for letter in role) for role in ROLES)
        return {"type": "string", "pattern": f"^({'|'.join(either)})$"}


class OllamaCalledFunction(CalledFunction):
    index = Ignored("the position in a stream, which clients send back")


class OllamaCalled(Record):
    """A call that the assistant made."""

    id = Text("by which a tool's message may name the call", limit=NAME_CHARS)
    type = Ignored("function")
    index = Ignored("the position in a stream, which clients send back")
    function = Object("the function and its arguments", OllamaCalledFunction, required=True)


class OllamaMessage(Record):
    """One message."""

    role = RoleField()
    content = Text("the text")
    thinking = Text("accepted; thoughts of past answers are left out")
    images = Images()
    tool_calls = Objects("calls that the assistant made", OllamaCalled, empty=True)
    tool_name = Text("of a tool's message: the function that answers", limit=NAME_CHARS)
    tool_call_id = Text("of a tool's message: the call that it answers; left out: by order and name", limit=NAME_CHARS)


class OllamaTool(Record):
    """A function that the model may call."""

    type = Ignored("function")
    function = Object("the function", DeclaredFunction, required=True)


def tools(declared: Sequence[OllamaTool]) -> tuple[Tool, ...]:
    """The tools; the last of a name counts."""
    return tuple({one.function.name: one.function.tool() for one in declared}.values())


def conversation(given: Sequence[OllamaMessage], limits: Limits) -> Conversation:
    """The messages without their pictures, and the pictures. Raises InvalidRequest for too many pictures."""
    count = sum(len(one.images) for one in given)
    if count > limits.max_images:
        raise given[0].error("images", f"and those of the other messages are {count}; the limit is {limits.max_images}")
    pairs = Pairs()
    messages = tuple(pairs.message(one) for one in given)
    return Conversation(messages, tuple(pending(given)))


def pending(given: Sequence[OllamaMessage]) -> list[Pending]:
    """The pictures of all messages, each before the text of its message, as Ollama has them."""
    return [
        Pending("picture", image, f"messages[{at}].images[{number}]", number, at)
        for at, one in enumerate(given)
        for number, image in enumerate(one.images)
    ]


class Pairs:
    """Pairs results with calls: by id, else the first open call of the function's name, else the first open call."""

    def __init__(self) -> None:
        self._made = 0
        self._open = OpenCalls()

    def message(self, given: OllamaMessage) -> Message:
        role = ROLES[given.role]
        calls = tuple(self._called(one) for one in given.tool_calls if role == "assistant")
        self._open.add(calls)
        answered = self._open.answered(given.tool_call_id, given.tool_name, guess=True) if role == "tool" else ""
        return Message(role, (TextPart(given.content),), calls, answered)

    def _called(self, given: OllamaCalled) -> ToolCall:
        self._made += 1
        return ToolCall(given.function.name, given.function.arguments, given.id or f"call_{self._made}")
