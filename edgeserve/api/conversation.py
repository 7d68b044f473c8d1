"""The field ``messages``, as both dialects take it."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api import content
from edgeserve.api.attachments import Attachments
from edgeserve.api.calls import Called, CalledFunction, check_arguments
from edgeserve.api.content import FILES, PICTURES, Content, Pending
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Object, Objects, Record
from edgeserve.api.values import Enum, Ignored, Text
from edgeserve.dataclass import dataclass
from edgeserve.messages import Message, Role, TextPart, ToolCall

MAX_FILES = 8
"""Sounds and files of one request."""
ROLES: Mapping[str, Role] = MappingProxyType(
    {
        "system": "system",
        "developer": "system",
        "user": "user",
        "assistant": "assistant",
        "tool": "tool",
        "function": "tool",
    }
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages without their pictures, sounds and files, and those in their order."""

    messages: tuple[Message, ...] = ()
    pending: tuple[Pending, ...] = ()

    async def whole(self, attachments: Attachments) -> tuple[Message, ...]:
        """The messages with all their parts. Raises as ``Attachments.read`` does."""
        messages = list(self.messages)
        for one in self.pending:
            message = messages[one.message]
            read = await attachments.read(one)
            parts = (*message.parts[: one.part], read, *message.parts[one.part :])
            messages[one.message] = dataclasses.replace(message, parts=parts)
        attachments.check_used()
        return tuple(messages)


class Empty(Field[None]):
    """A field of answers that no model here fills. A client may send it back, empty as it came."""

    def __init__(self) -> None:
        super().__init__("accepted as long as it is empty", None)

    def read(self, fields: Fields, limits: Limits) -> None:
        if fields.raw(self.name):
            raise fields.error(self.name, "is not supported by this server; leave it out")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"enum": [None, "", False, 0, [], {}]}


NO_CALLS = {"tool_calls": {"maxItems": 0}, "function_call": {"type": "null"}}
WAYS: tuple[dict[str, Any], ...] = (
    {
        "required": ["content"],
        "properties": {
            "role": {"enum": ["system", "developer", "user"]},
            "content": {"type": ["string", "array"]},
            **NO_CALLS,
        },
    },
    {"properties": {"role": {"enum": ["assistant"]}}},
    {"properties": {"role": {"enum": ["tool", "function"]}, **NO_CALLS}},
)
"""The fields that go with each role, as JSON schema. ``ChatMessage.message`` holds to them."""


class OpenCalls:
    """Calls of past messages that no result has answered yet, in their order.

    A look-up takes the same time however many calls there are: one request may hold ten thousand.
    """

    def __init__(self) -> None:
        self._open: dict[int, str] = {}
        """Ids of the calls by their number."""
        self._all: deque[int] = deque()
        self._by_id: dict[str, deque[int]] = defaultdict(deque)
        self._by_name: dict[str, deque[int]] = defaultdict(deque)
        self._numbers = itertools.count()
        self._made = 0

    def add(self, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            number = next(self._numbers)
            self._open[number] = call.id
            for line in (self._all, self._by_id[call.id], self._by_name[call.name]):
                line.append(number)

    def answered(self, call_id: str, name: str, *, guess: bool = False) -> str:
        """The id of the call that a result answers: the given one, else the oldest open call, of ``name`` if one is.

        ``guess``: also where no open call has the given id. Returns ``call_id`` where none is found.
        """
        lines = [self._by_id.get(call_id)] if call_id else []
        if guess or not call_id:
            lines += [self._by_name.get(name), self._all]
        for line in lines:
            while line and line[0] not in self._open:
                line.popleft()  # another line led to it
            if line:
                return self._open.pop(line.popleft())
        return call_id

    def new_id(self) -> str:
        """An id for a call that has none."""
        self._made += 1
        return f"call_{self._made}"


class ChatMessage(Record):
    """One message."""

    role = Enum("who speaks; developer is system, and function is the older name of tool", tuple(ROLES), required=True)
    content = Content()
    name = Text("of a function's message: the function; else accepted, and changes nothing")
    tool_calls = Objects("calls that the assistant made", Called, empty=True)
    function_call = Object("the older form of one call that the assistant made", CalledFunction)
    tool_call_id = Text("of a tool's message: the call that it answers; left out: the oldest open one")
    reasoning_content = Text("thoughts of a past answer, which the model's chat template keeps or leaves out")
    reasoning = Text("another name of reasoning_content")
    thinking = Text("another name of reasoning_content")
    refusal = Text("what the assistant said instead of an answer")
    reasoning_details = Ignored()
    annotations = Ignored()
    audio = Empty()
    images = Empty()

    @classmethod
    def describe(cls, limits: Limits) -> dict[str, Any]:
        return super().describe(limits) | {"anyOf": list(WAYS)}

    def message(self, open_calls: OpenCalls) -> Message:
        """The message without its pictures, sounds and files. Raises InvalidRequest."""
        role, said = ROLES[self.role], self.content
        calls = tuple(one.call() for one in self.tool_calls)
        if self.function_call is not None:
            calls += (ToolCall(self.function_call.name, self.function_call.arguments, open_calls.new_id()),)
        if calls and role != "assistant":
            field = "tool_calls" if self.tool_calls else "function_call"
            raise self.error(field, "belongs to messages of the assistant")
        if said is None and role in ("system", "user"):
            raise self.error("content", "must be a string or a list of parts")
        open_calls.add(calls)
        return Message(
            role,
            said.texts if said is not None else (TextPart(self.refusal),) if self.refusal else (),
            calls,
            open_calls.answered(self.tool_call_id.strip(), self.name) if role == "tool" else "",
            self.reasoning_content or self.reasoning or self.thinking if role == "assistant" else "",
        )


class Messages(Field[Conversation]):
    """The field ``messages``."""

    def __init__(self, *, required: bool = False) -> None:
        super().__init__("the conversation so far", Conversation(), required=required)

    def read(self, fields: Fields, limits: Limits) -> Conversation:
        given = fields.objects(self.name)
        images, files = (sum(content.count(one, types) for one in given) for types in (PICTURES, FILES))
        if images > limits.max_images:  # before any is read
            raise fields.error(self.name, f"hold {images} images; the limit is {limits.max_images}")
        if files > MAX_FILES:
            raise fields.error(self.name, f"hold {files} sounds and files; the limit is {MAX_FILES}")
        check_arguments(given)
        messages: list[Message] = []
        pending: list[Pending] = []
        open_calls = OpenCalls()
        for at, one in enumerate(given):
            given_message = ChatMessage(one, limits)
            messages.append(given_message.message(open_calls))
            if said := given_message.content:
                pending += [dataclasses.replace(part, message=at) for part in said.pending]
        return Conversation(tuple(messages), tuple(pending))

    def schema(self, limits: Limits) -> dict[str, Any]:
        example = [{"role": "user", "content": "Name a bird."}]
        return {"type": "array", "minItems": 1, "items": ChatMessage.describe(limits), "examples": [example]}
