"""Messages as both dialects write them, OpenAI's content parts included."""

from __future__ import annotations

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.pictures import Pictures
from edgeserve.api.tools import check_results, read_calls
from edgeserve.messages import ImagePart, Message, Role, TextPart, ToolCall

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


async def read_messages(fields: Fields, limits: Limits, pictures: Pictures) -> tuple[Message, ...]:
    """The field ``messages``. Raises InvalidRequest and its kinds, naming the part."""
    said = fields.objects("messages")
    count = sum(_images(one) for one in said)  # before any is read
    if count > limits.max_images:
        raise fields.error("messages", f"hold {count} images; the limit is {limits.max_images}")
    messages = tuple([await _message(one, pictures) for one in said])
    pictures.check_used()
    check_results(fields, messages)
    return messages


def _images(fields: Fields) -> int:
    content = fields.raw("content")
    parts = content if isinstance(content, list) else []
    return sum(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)


async def _message(fields: Fields, pictures: Pictures) -> Message:
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
    return Message(ROLES[role], await _parts(fields, pictures, optional=bool(calls)), calls, answered)


async def _parts(fields: Fields, pictures: Pictures, *, optional: bool) -> tuple[TextPart | ImagePart, ...]:
    content = fields.raw("content")
    if content is None and optional:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, list):
        raise fields.error("content", "must be a string or a list of parts")
    return tuple([await _part(part, pictures) for part in fields.objects("content")])


async def _part(fields: Fields, pictures: Pictures) -> TextPart | ImagePart:
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
        return await pictures.read(address.required_text("url"), fields.full("image_url"))
    raise fields.error("type", f"must be text or image_url, not {kind!r}")
