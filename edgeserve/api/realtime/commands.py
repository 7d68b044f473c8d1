"""The events that clients send."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.realtime.items import Base64
from edgeserve.api.realtime.refusal import Refused
from edgeserve.api.schema import Field, Record, read_variant
from edgeserve.api.values import Integer, Text

MAX_MILLISECONDS = 24 * 3600 * 1000


class Whole(Field[Fields | None]):
    """An object that its reader checks, with all its nulls."""

    def __init__(self, words: str, *, required: bool = False) -> None:
        super().__init__(words, None, required=required)

    def read(self, fields: Fields, limits: Limits) -> Fields:
        if (found := fields.object(self.name)) is None:
            raise fields.error(self.name, "is required")
        return found

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "object"}


class Command(Record):
    """An event. ``event_id`` comes back in the error about it."""

    type = Text("", limit=NAME_CHARS)
    event_id = Text("of the client's choice", limit=512)


class Update(Command):
    session = Whole("settings to change", required=True)


class Append(Command):
    audio = Base64("sound in the session's form", required=True)


class Create(Command):
    item = Whole("the item", required=True)
    previous_item_id = Text('the item before; "root": none; left out: the last', limit=NAME_CHARS)


class OfItem(Command):
    item_id = Text("", required=True, limit=NAME_CHARS)


class Truncate(OfItem):
    content_index = Integer("0", 0, 64, default=0)
    audio_end_ms = Integer("milliseconds that were heard", 0, MAX_MILLISECONDS, default=0)


class Respond(Command):
    response = Whole("settings of this answer alone")


class Cancel(Command):
    response_id = Text("", limit=NAME_CHARS)


COMMANDS: Mapping[str, type[Command]] = MappingProxyType(
    {
        "session.update": Update,
        "transcription_session.update": Update,
        "input_audio_buffer.append": Append,
        "input_audio_buffer.commit": Command,
        "input_audio_buffer.clear": Command,
        "output_audio_buffer.clear": Command,
        "conversation.item.create": Create,
        "conversation.item.delete": OfItem,
        "conversation.item.retrieve": OfItem,
        "conversation.item.truncate": Truncate,
        "response.create": Respond,
        "response.cancel": Cancel,
    }
)


def read(fields: Fields, limits: Limits) -> Command:
    """The client's event. Raises InvalidRequest."""
    if not isinstance(kind := fields.raw("type"), str) or kind not in COMMANDS:
        text = f"type {str(kind)[:80]!r} is no event of clients; known: {', '.join(COMMANDS)}"
        raise Refused.by("unknown_message_type", text, "type")
    return read_variant(fields, COMMANDS, limits)
