"""The contents of a message: a text, or parts of several kinds, under the names that OpenAI's dialects give them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import VISIBLE, Field, Record, read_variant
from edgeserve.api.values import Enum, Ignored, Text
from edgeserve.messages import TextPart

PICTURES = ("image_url", "input_image")
"""Types of parts that hold a picture."""


@dataclasses.dataclass(frozen=True, slots=True)
class PendingPicture:
    """A picture that is still to be read: the address, the field that holds the address, and the picture's place."""

    url: str
    param: str
    part: int
    message: int = 0


class Parts(NamedTuple):
    """The texts of a message, and its pictures."""

    texts: tuple[TextPart, ...] = ()
    pending: tuple[PendingPicture, ...] = ()


class ImageUrl(Record):
    url = Text("a data: URL, attachment:NAME or an address", required=True)
    detail = Enum("accepted; every picture is read alike", ("auto", "low", "high", "original"))


class ImageAddress(Field[str]):
    """The address of a picture, or an object that holds the address."""

    def __init__(self) -> None:
        super().__init__("the picture", "", required=True)

    def read(self, fields: Fields, limits: Limits) -> str:
        if isinstance(fields.raw(self.name), str):
            return fields.required_text(self.name)
        nested = fields.object(self.name)
        if nested is None:
            raise fields.error(self.name, "is required")
        return ImageUrl(nested, limits).url

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "string", "minLength": 1, "pattern": VISIBLE}, ImageUrl.describe(limits)]}


class TextContent(Record):
    type = Enum("", ("text", "input_text", "output_text"), required=True)
    text = Text("")
    annotations = Ignored("of an answer that comes back")
    logprobs = Ignored("of an answer that comes back")

    @property
    def said(self) -> str:
        return self.text


class RefusalContent(Record):
    type = Enum("", ("refusal",), required=True)
    refusal = Text("what the assistant said instead of an answer")

    @property
    def said(self) -> str:
        return self.refusal


class ThoughtContent(Record):
    """Thoughts of a past answer. Their text stands in one of several fields, all of which are left out."""

    OPEN = True
    type = Enum("accepted; thoughts among the parts are left out", ("thinking", "reasoning"), required=True)


class ImageContent(Record):
    type = Enum("", PICTURES, required=True)
    image_url = ImageAddress()
    detail = Enum("accepted; every picture is read alike", ("auto", "low", "high", "original"))


Part = TextContent | RefusalContent | ThoughtContent | ImageContent
PARTS: Mapping[str, type[Part]] = MappingProxyType(
    dict.fromkeys(("text", "input_text", "output_text"), TextContent)
    | {"refusal": RefusalContent}
    | dict.fromkeys(("thinking", "reasoning"), ThoughtContent)
    | dict.fromkeys(PICTURES, ImageContent)
)


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
        for given in fields.objects(self.name):
            part = read_variant(given, PARTS, limits)
            if isinstance(part, ImageContent):
                place = len(texts) + len(pending)
                pending.append(PendingPicture(part.image_url, given.full("image_url"), place))
            elif not isinstance(part, ThoughtContent):
                texts.append(TextPart(part.said))
        return Parts(tuple(texts), tuple(pending))

    def schema(self, limits: Limits) -> dict[str, Any]:
        parts = [one.describe(limits) for one in dict.fromkeys(PARTS.values())]
        return {"oneOf": [{"type": "string"}, {"type": "array", "items": {"oneOf": parts}, "minItems": 1}]}


def pictures(message: Fields) -> int:
    """Pictures in a message that is not checked yet."""
    content = message.raw("content")
    parts = content if isinstance(content, list) else []
    return sum(isinstance(part, dict) and part.get("type") in PICTURES for part in parts)
