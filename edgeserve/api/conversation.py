"""Messages as both dialects write them, OpenAI's content parts included."""

from __future__ import annotations

from edgeserve.api import image
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.tools import check_results, read_calls
from edgeserve.messages import ImagePart, Message, Role, TextPart, ToolCall

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def read_messages(fields: Fields, limits: Limits) -> tuple[Message, ...]:
    """The field ``messages``. Raises InvalidRequest and its kinds, naming the part."""
    messages = tuple(_message(one, limits) for one in fields.objects("messages"))
    count = sum(len(message.images) for message in messages)
    if count > limits.max_images:
        raise fields.error("messages", f"hold {count} images; the limit is {limits.max_images}")
    check_results(fields, messages)
    return messages


def _message(fields: Fields, limits: Limits) -> Message:
    role = fields.required_text("role")
    if role not in ROLES:
        raise fields.error("role", f"must be one of {', '.join(ROLES)}, not {role!r}")
    answered = fields.required_text("tool_call_id") if role == "tool" else ""
    calls: tuple[ToolCall, ...] = ()
    if fields.raw("tool_calls") not in (None, []):
        if role != "assistant":
            raise fields.error("tool_calls", "belong to messages of the assistant")
        calls = read_calls(fields)
    return Message(ROLES[role], _parts(fields, limits, optional=bool(calls)), calls, answered)


def _parts(fields: Fields, limits: Limits, *, optional: bool) -> tuple[TextPart | ImagePart, ...]:
    content = fields.raw("content")
    if content is None and optional:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, list):
        raise fields.error("content", "must be a string or a list of parts")
    return tuple(_part(part, limits) for part in fields.objects("content"))


def _part(fields: Fields, limits: Limits) -> TextPart | ImagePart:
    kind = fields.required_text("type")
    if kind == "text":
        return TextPart(fields.text("text") or "")
    if kind == "image_url":
        address = fields.object("image_url")
        if address is None:
            raise fields.error("image_url", "is required")
        return image.from_url(address.required_text("url"), limits, fields.full("image_url"))
    raise fields.error("type", f"must be text or image_url, not {kind!r}")
