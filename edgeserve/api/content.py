"""The contents of a message: a text, or parts of several kinds, under the names that OpenAI's dialects give them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.openai.accepted import Unavailable
from edgeserve.api.schema import VISIBLE, Field, Object, Record, read_variant
from edgeserve.api.values import Enum, Ignored, Text
from edgeserve.dataclass import dataclass
from edgeserve.messages import TextPart

PICTURES = ("image_url", "input_image")
"""Types of parts that hold a picture."""
FILES = ("input_audio", "file", "input_file")
"""Types of parts that hold a sound, a text, a PDF file or a picture."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A part that is still to be read.

    - ``address``: of a picture; or the data of a sound or file, in base64 or as a data URL
    - ``param``: the field that holds the address
    - ``part``, ``message``: the place
    - ``name``: of a file
    """

    kind: Literal["picture", "sound", "file"]
    address: str
    param: str
    part: int
    message: int = 0
    name: str = ""


class Parts(NamedTuple):
    """The texts of a message, and its other parts."""

    texts: tuple[TextPart, ...] = ()
    pending: tuple[Pending, ...] = ()


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


class AudioData(Record):
    data = Text("the sound file in base64, or attachment:NAME", required=True)
    format = Text("accepted; the file itself says its form", limit=64)


class AudioContent(Record):
    type = Enum("", ("input_audio",), required=True)
    input_audio = Object("a recording, which the transcription model turns into text", AudioData, required=True)

    def pending(self, fields: Fields, place: int) -> Pending:
        return Pending("sound", self.input_audio.data, fields.full("input_audio"), place)


class FileData(Record):
    file_data = Text(
        "the file as a data: URL or in base64, or attachment:NAME; UTF-8 text, PDF or a picture", required=True
    )
    filename = Text("stands before the text of the file", limit=256)
    file_id = Unavailable("this server keeps no files; send file_data")
    file_url = Unavailable("this server fetches no files; send file_data")

    def pending(self, fields: Fields, place: int) -> Pending:
        return Pending("file", self.file_data, self._given.full("file_data"), place, name=self.filename)


class FileContent(Record):
    type = Enum("", ("file",), required=True)
    file = Object("the file", FileData, required=True)

    def pending(self, fields: Fields, place: int) -> Pending:
        return self.file.pending(fields, place)


class InputFileContent(FileData):
    type = Enum("", ("input_file",), required=True)


Attached = AudioContent | FileContent | InputFileContent
Part = TextContent | RefusalContent | ThoughtContent | ImageContent | Attached
PARTS: Mapping[str, type[Part]] = MappingProxyType(
    dict.fromkeys(("text", "input_text", "output_text"), TextContent)
    | {"refusal": RefusalContent}
    | dict.fromkeys(("thinking", "reasoning"), ThoughtContent)
    | dict.fromkeys(PICTURES, ImageContent)
    | {"input_audio": AudioContent, "file": FileContent, "input_file": InputFileContent}
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
        pending: list[Pending] = []
        for given in fields.objects(self.name):
            part = read_variant(given, PARTS, limits)
            place = len(texts) + len(pending)
            if isinstance(part, ImageContent):
                pending.append(Pending("picture", part.image_url, given.full("image_url"), place))
            elif isinstance(part, Attached):
                pending.append(part.pending(given, place))
            elif not isinstance(part, ThoughtContent):
                texts.append(TextPart(part.said))
        return Parts(tuple(texts), tuple(pending))

    def schema(self, limits: Limits) -> dict[str, Any]:
        parts = [one.describe(limits) for one in dict.fromkeys(PARTS.values())]
        return {"oneOf": [{"type": "string"}, {"type": "array", "items": {"oneOf": parts}, "minItems": 1}]}


def count(message: Fields, types: Collection[str]) -> int:
    """Parts of these types in a message that is not checked yet."""
    content = message.raw("content")
    parts = content if isinstance(content, list) else []
    kinds = (part.get("type") for part in parts if isinstance(part, dict))
    return sum(isinstance(kind, str) and kind in types for kind in kinds)
