"""The field ``messages``, as both dialects take it, with OpenAI's content parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.pictures.request import Pictures
from edgeserve.api.schema import GIVEN, Field, Object, Objects, Record, read_variant
from edgeserve.api.tools import Called, check_arguments, check_results
from edgeserve.api.values import Enum, Ignored, Text
from edgeserve.messages import Message, Role, TextPart

ROLES: Mapping[str, Role] = MappingProxyType(
    {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
)


@dataclasses.dataclass(frozen=True, slots=True)
class PendingPicture:
    """A picture that is still to be read: the address, the field that holds the address, and the picture's place."""

    url: str
    param: str
    part: int
    message: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Conversation:
    """Messages without their pictures, and the pictures in their order."""

    messages: tuple[Message, ...] = ()
    pending: tuple[PendingPicture, ...] = ()

    async def whole(self, pictures: Pictures) -> tuple[Message, ...]:
        """The messages with their pictures. Raises InvalidRequest and its kinds, which name the part."""
        messages = list(self.messages)
        for one in self.pending:
            message = messages[one.message]
            picture = await pictures.read(one.url, one.param)
            parts = (*message.parts[: one.part], picture, *message.parts[one.part :])
            messages[one.message] = dataclasses.replace(message, parts=parts)
        pictures.check_used()
        return tuple(messages)


class ImageUrl(Record):
    url = Text("a data: URL, attachment:NAME or an address", required=True)
    detail = Enum("accepted; every picture is read alike", ("auto", "low", "high"))


class TextContent(Record):
    type = Enum("", ("text",), required=True)
    text = Text("")


class ImageContent(Record):
    type = Enum("", ("image_url",), required=True)
    image_url = Object("the picture", ImageUrl, required=True)


PARTS: Mapping[str, type[TextContent | ImageContent]] = MappingProxyType(
    {"text": TextContent, "image_url": ImageContent}
)


class Parts(NamedTuple):
    """The texts of a message, and its pictures."""

    texts: tuple[TextPart, ...] = ()
    pending: tuple[PendingPicture, ...] = ()


class Content(Field[Parts | None]):
    """The field ``content`` of a message: a text, or a list of parts."""

    def __init__(self) -> None:
        super().__init__("a text, or a list of parts", None)

    def read(self, fields: Fields, limits: Limits) -> Parts:
        content = fields.raw(self.name)
        if isinstance(content, str):
            return Parts((TextPart(content),))
        if not isinstance(content, list):
            raise fields.error(self.name, "must be a string or a list of parts")
        texts: list[TextPart] = []
        pending: list[PendingPicture] = []
        for index, given in enumerate(fields.objects(self.name)):
            part = read_variant(given, PARTS, limits)
            if isinstance(part, TextContent):
                texts.append(TextPart(part.text))
            else:
                pending.append(PendingPicture(part.image_url.url, given.full("image_url"), index))
        return Parts(tuple(texts), tuple(pending))

    def schema(self, limits: Limits) -> dict[str, Any]:
        parts = [one.describe(limits) for one in PARTS.values()]
        return {"oneOf": [{"type": "string"}, {"type": "array", "items": {"oneOf": parts}, "minItems": 1}]}


class Empty(Field[None]):
    """A field of answers that no model here fills. A client may send it back, empty as it came."""

    def __init__(self) -> None:
        super().__init__("accepted as long as it is empty", None)

    def read(self, fields: Fields, limits: Limits) -> None:
        if fields.raw(self.name):
            raise fields.error(self.name, "is not supported by this server; leave it out")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"enum": [None, "", False, 0, [], {}]}


SAID = {"type": ["string", "array"]}
WAYS: tuple[dict[str, Any], ...] = (
    {
        "required": ["content"],
        "properties": {
            "role": {"enum": ["system", "developer", "user"]},
            "content": SAID,
            "tool_calls": {"maxItems": 0},
        },
    },
    {"required": ["content"], "properties": {"role": {"enum": ["assistant"]}, "content": SAID}},
    {
        "required": ["tool_calls"],
        "properties": {"role": {"enum": ["assistant"]}, "tool_calls": {"type": "array", "minItems": 1}},
    },
    {
        "required": ["content", "tool_call_id"],
        "properties": {
            "role": {"enum": ["tool"]},
            "content": SAID,
            "tool_call_id": GIVEN,
            "tool_calls": {"maxItems": 0},
        },
    },
)
"""The fields that go with each role, as JSON schema. ``ChatMessage.message`` holds to them."""


class ChatMessage(Record):
    """One message."""

    role = Enum("who speaks; developer is system", tuple(ROLES), required=True)
    content = Content()
    name = Text("accepted; it changes nothing here")
    tool_calls = Objects("calls that the assistant made", Called, empty=True)
    tool_call_id = Text("of a tool's message: the call that it answers")
    reasoning_content = Text("accepted; thoughts of past answers are left out")
    annotations = Ignored()
    refusal = Empty()
    audio = Empty()
    function_call = Empty()

    @classmethod
    def describe(cls, limits: Limits) -> dict[str, Any]:
        return super().describe(limits) | {"anyOf": list(WAYS)}

    def message(self) -> Message:
        """The message without its pictures. Raises InvalidRequest."""
        role, content = self.role, self.content
        calls = tuple(one.call() for one in self.tool_calls)
        answered = self.tool_call_id if role == "tool" else ""
        if role == "tool" and not answered.strip():
            raise self.error("tool_call_id", "is required and must not be empty")
        if calls and role != "assistant":
            raise self.error("tool_calls", "belong to messages of the assistant")
        if content is None and not calls:
            raise self.error("content", "must be a string or a list of parts")
        return Message(ROLES[role], content.texts if content else (), calls, answered)


class Messages(Field[Conversation]):
    """The field ``messages``."""

    def __init__(self, *, required: bool = False) -> None:
        super().__init__("the conversation so far", Conversation(), required=required)

    def read(self, fields: Fields, limits: Limits) -> Conversation:
        given = fields.objects(self.name)
        count = sum(map(_images, given))  # before any is read
        if count > limits.max_images:
            raise fields.error(self.name, f"hold {count} images; the limit is {limits.max_images}")
        check_arguments(given)
        messages: list[Message] = []
        pending: list[PendingPicture] = []
        for at, one in enumerate(given):
            given_message = ChatMessage(one, limits)
            messages.append(given_message.message())
            if content := given_message.content:
                pending += [dataclasses.replace(picture, message=at) for picture in content.pending]
        check_results(fields, messages)
        return Conversation(tuple(messages), tuple(pending))

    def schema(self, limits: Limits) -> dict[str, Any]:
        example = [{"role": "user", "content": "Name a bird."}]
        return {"type": "array", "minItems": 1, "items": ChatMessage.describe(limits), "examples": [example]}


def _images(fields: Fields) -> int:
    content = fields.raw("content")
    parts = content if isinstance(content, list) else []
    return sum(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)
