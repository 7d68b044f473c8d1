"""Items of a conversation: messages, calls of functions and their results."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from edgeserve.api.calls import Arguments
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Record, read_variant
from edgeserve.api.tools import ToolName
from edgeserve.api.values import Enum, Ignored, Text
from edgeserve.dataclass import dataclass
from edgeserve.messages import ImagePart, Message, Role, TextPart, ToolCall
from edgeserve.talk.spoken import Spoken

MAX_PARTS = 64
PART_CHARS = 64
"""Characters that a part counts as beside its text."""
CHAR_BYTES = 4
"""Bytes of a character of any text at most."""
ROLES: Mapping[str, Role] = MappingProxyType({"system": "system", "user": "user", "assistant": "assistant"})
TEXTS = ("input_text", "output_text", "text")
SOUNDS = ("input_audio", "output_audio", "audio")
PICTURE = "input_image"


def new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(10)}"


@dataclass(slots=True)
class Item:
    """One item. ``content``: parts as clients read them, without sound and pictures.

    - ``spoken``: of an answer that was spoken
    - ``sound`` of a user's part, with the number of the part; until it is transcribed
    - ``pictures``: files by the numbers of their parts
    """

    id: str
    type: str = "message"
    role: str = ""
    status: str = "completed"
    content: list[dict[str, Any]] = field(default_factory=list)
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str = ""
    spoken: Spoken | None = None
    sound: tuple[int, bytes] | None = None
    pictures: dict[int, bytes] = field(default_factory=dict)

    def written(self) -> dict[str, Any]:
        head = {"id": self.id, "object": "realtime.item", "type": self.type, "status": self.status}
        if self.type == "function_call":
            return head | {"call_id": self.call_id, "name": self.name, "arguments": self.arguments}
        if self.type == "function_call_output":
            return head | {"call_id": self.call_id, "output": self.output}
        return head | {"role": self.role, "content": [dict(part) for part in self.content]}

    @property
    def text(self) -> str:
        """All that the parts say."""
        return "".join(map(_said, self.content))

    @property
    def size(self) -> int:
        """Characters that the item keeps; each part counts as some, since an empty one takes memory, too."""
        return len(self.text) + len(self.arguments) + len(self.output) + PART_CHARS * len(self.content)

    @property
    def held(self) -> int:
        """Bytes of its texts and pictures, about."""
        return CHAR_BYTES * self.size + sum(map(len, self.pictures.values()))

    def message(self, pictures: Mapping[int, ImagePart] = MappingProxyType({})) -> Message | None:
        """The item as engines read it; None for one that says nothing. ``pictures``: the checked ones."""
        if self.type == "function_call":
            return Message("assistant", (), (ToolCall(self.name, self.arguments, self.call_id),))
        if self.type == "function_call_output":
            return Message("tool", (TextPart(self.output),), tool_call_id=self.call_id)
        if not pictures:
            return Message(ROLES[self.role], (TextPart(self.text),)) if self.text.strip() else None
        said = [pictures.get(at) or TextPart(_said(part)) for at, part in enumerate(self.content)]
        return Message(ROLES[self.role], tuple(one for one in said if one != TextPart("")))


def _said(part: Mapping[str, Any]) -> str:
    return str(part.get("text") or part.get("transcript") or "")


class Base64(Field[bytes]):
    """Bytes as base64."""

    def __init__(self, words: str, *, required: bool = False) -> None:
        super().__init__(words, b"", required=required)

    def read(self, fields: Fields, limits: Limits) -> bytes:
        if fields.raw(self.name) is None:
            raise fields.error(self.name, "is required: sound as base64")
        return self._decoded(fields, fields.text(self.name))

    def _decoded(self, fields: Fields, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise fields.error(self.name, "is not base64") from None

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "contentEncoding": "base64"}


class DataUrl(Base64):
    """A file as a data URL."""

    def read(self, fields: Fields, limits: Limits) -> bytes:
        head, _, text = fields.required_text(self.name).partition(",")
        if not (head.startswith("data:") and head.endswith(";base64")):
            raise fields.error(self.name, "must be data:image/jpeg;base64,…: conversations fetch no pictures")
        return self._decoded(fields, text)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "pattern": "^data:.*;base64,"}


class TextPiece(Record):
    type = Enum("", TEXTS, required=True)
    text = Text("", limit=lambda limits: limits.max_text_chars)


class SoundPiece(Record):
    type = Enum("", SOUNDS, required=True)
    audio = Base64("sound in the session's form")
    transcript = Text("", limit=lambda limits: limits.max_text_chars)
    format = Ignored()


class PicturePiece(Record):
    type = Enum("", (PICTURE,), required=True)
    image_url = DataUrl("the picture", required=True)
    detail = Enum("accepted; every picture is read alike", ("auto", "low", "high", "original"), default="auto")


Piece = TextPiece | SoundPiece | PicturePiece
PIECES: Mapping[str, type[Piece]] = MappingProxyType(
    dict.fromkeys(TEXTS, TextPiece) | dict.fromkeys(SOUNDS, SoundPiece) | {PICTURE: PicturePiece}
)


class Pieces(Field[tuple[Piece, ...]]):
    """The content of a message."""

    def __init__(self) -> None:
        super().__init__("parts of the message", (), required=True)

    def read(self, fields: Fields, limits: Limits) -> tuple[Piece, ...]:
        given = fields.objects(self.name)
        if len(given) > MAX_PARTS:
            raise fields.error(self.name, f"has {len(given)} entries; the limit is {MAX_PARTS}")
        return tuple(read_variant(one, PIECES, limits) for one in given)

    def schema(self, limits: Limits) -> dict[str, Any]:
        parts = [one.describe(limits) for one in dict.fromkeys(PIECES.values())]
        return {"type": "array", "items": {"oneOf": parts}, "minItems": 1, "maxItems": MAX_PARTS}


class Given(Record):
    """Fields of every item."""

    id = Text("of the client's choice", limit=64)
    object = Ignored()
    status = Ignored()


class GivenMessage(Given):
    type = Enum("", ("message",), required=True)
    role = Enum("who speaks", tuple(ROLES), required=True)
    content = Pieces()

    def item(self, name: str) -> Item:
        item = Item(name, role=self.role)
        for at, piece in enumerate(self.content):
            if isinstance(piece, TextPiece):
                item.content.append({"type": piece.type, "text": piece.text})
            elif isinstance(piece, SoundPiece):
                self._add_sound(item, piece, at)
            else:
                self._add_picture(item, piece, at)
        return item

    def _add_picture(self, item: Item, piece: PicturePiece, at: int) -> None:
        if self.role != "user":
            raise self.error(f"content[{at}]", "is a picture, which only the user sends")
        item.pictures[at] = piece.image_url
        item.content.append({"type": piece.type, "detail": piece.detail})

    def _add_sound(self, item: Item, piece: SoundPiece, at: int) -> None:
        known = piece.transcript or None
        if piece.audio and not known:
            if self.role != "user":
                raise self.error(f"content[{at}].audio", "needs a transcript: only the user's sound is transcribed")
            if item.sound:
                raise self.error(f"content[{at}].audio", "is a second sound of one message; send two messages")
            item.sound = at, piece.audio
        item.content.append({"type": piece.type, "transcript": known})


class GivenCall(Given):
    type = Enum("", ("function_call",), required=True)
    call_id = Text("", limit=NAME_CHARS)
    name = ToolName()
    arguments = Arguments()

    def item(self, name: str) -> Item:
        call = self.call_id or name
        return Item(name, "function_call", call_id=call, name=self.name, arguments=self.arguments)


class GivenOutput(Given):
    type = Enum("", ("function_call_output",), required=True)
    call_id = Text("the call that it answers", required=True, limit=NAME_CHARS)
    output = Text("", limit=lambda limits: limits.max_text_chars)

    def item(self, name: str) -> Item:
        return Item(name, "function_call_output", call_id=self.call_id, output=self.output)


GivenItem = GivenMessage | GivenCall | GivenOutput
VARIANTS: Mapping[str, type[GivenItem]] = MappingProxyType(
    {"message": GivenMessage, "function_call": GivenCall, "function_call_output": GivenOutput}
)


def read_item(fields: Fields, limits: Limits, new_id: str) -> Item:
    """The item in an object. ``new_id``: its id where the client gives none. Raises InvalidRequest."""
    given = read_variant(fields, VARIANTS, limits)
    return given.item(given.id or new_id)
