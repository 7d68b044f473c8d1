"""Messages as both dialects write them, OpenAI's content parts included."""

from __future__ import annotations

import asyncio
import dataclasses

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.pictures.request import Pictures
from edgeserve.api.tools import check_results, read_calls
from edgeserve.messages import Message, Role, TextPart, ToolCall

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

MESSAGE = {"role", "content", "name", "tool_calls", "tool_call_id"}
ANSWERED = {"refusal", "annotations", "reasoning_content", "audio", "function_call"}
"""Fields of answers, which clients send back as they got them."""
EMPTY = {"refusal", "audio", "function_call"}
"""Those that must say nothing: no model here makes them."""
DETAILS = ("auto", "low", "high")


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """A picture that is still to be read: where it belongs, and where it is."""

    message: int
    part: int
    url: str
    param: str


async def read_messages(fields: Fields, limits: Limits, pictures: Pictures) -> tuple[Message, ...]:
    """The field ``messages``. Raises InvalidRequest and its kinds, naming the part."""
    # Beside the event loop: a body may hold tens of thousands of messages, or megabytes of calls.
    messages, wanted = await asyncio.to_thread(_read, fields, limits)
    for one in wanted:
        message = messages[one.message]
        picture = await pictures.read(one.url, one.param)
        parts = (*message.parts[: one.part], picture, *message.parts[one.part :])
        messages[one.message] = dataclasses.replace(message, parts=parts)
    pictures.check_used()
    return tuple(messages)


def _read(fields: Fields, limits: Limits) -> tuple[list[Message], list[_Wanted]]:
    """The messages without their pictures, and the pictures in their order."""
    said = fields.objects("messages")
    count = sum(_images(one) for one in said)  # before any is read
    if count > limits.max_images:
        raise fields.error("messages", f"hold {count} images; the limit is {limits.max_images}")
    wanted: list[_Wanted] = []
    messages = [_message(one, at, wanted) for at, one in enumerate(said)]
    check_results(fields, messages)
    return messages, wanted


def _images(fields: Fields) -> int:
    content = fields.raw("content")
    parts = content if isinstance(content, list) else []
    return sum(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)


def _message(fields: Fields, at: int, wanted: list[_Wanted]) -> Message:
    fields.only(MESSAGE | ANSWERED)
    role = fields.required_text("role")
    for name in EMPTY:
        if fields.raw(name):
            raise fields.error(name, "is not supported by this server; leave it out")
    fields.text("name")
    fields.text("reasoning_content")
    if role not in ROLES:
        raise fields.error("role", f"must be one of {', '.join(ROLES)}, not {role!r}")
    answered = fields.required_text("tool_call_id") if role == "tool" else ""
    calls: tuple[ToolCall, ...] = ()
    if fields.raw("tool_calls") not in (None, []):
        if role != "assistant":
            raise fields.error("tool_calls", "belong to messages of the assistant")
        calls = read_calls(fields)
    return Message(ROLES[role], _parts(fields, at, wanted, optional=bool(calls)), calls, answered)


def _parts(fields: Fields, at: int, wanted: list[_Wanted], *, optional: bool) -> tuple[TextPart, ...]:
    content = fields.raw("content")
    if content is None and optional:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, list):
        raise fields.error("content", "must be a string or a list of parts")
    texts = []
    for index, part in enumerate(fields.objects("content")):
        read = _part(part)
        if isinstance(read, TextPart):
            texts.append(read)
        else:
            wanted.append(_Wanted(at, index, *read))
    return tuple(texts)


def _part(fields: Fields) -> TextPart | tuple[str, str]:
    """A text; or the address of a picture, and the field that it stands in."""
    kind = fields.required_text("type")
    if kind == "text":
        fields.only({"type", "text"})
        return TextPart(fields.text("text") or "")
    if kind == "image_url":
        address = fields.object("image_url")
        if address is None:
            raise fields.error("image_url", "is required")
        fields.only({"type", "image_url"})
        address.only({"url", "detail"})
        if address.raw("detail") not in (None, *DETAILS):
            raise address.error("detail", f"must be one of {', '.join(DETAILS)}")
        return address.required_text("url"), fields.full("image_url")
    raise fields.error("type", f"must be text or image_url, not {kind!r}")
