"""Blocks of content in the messages of a request."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.anthropic.values import Content, Input, LongToolName
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Record, read_variant
from edgeserve.api.values import Enum, Flag, Ignored, Text
from edgeserve.errors import NotSupported
from edgeserve.messages import ToolCall


class Block(Record):
    """A block of any type."""

    cache_control = Ignored("accepted; every prompt is cached")
    citations = Ignored("accepted; answers cite nothing")

    @property
    def param(self) -> str:
        """The field of a picture or file, for errors."""
        return self._given.full("source")


class TextBlock(Block):
    type = Enum("", ("text",), required=True)
    text = Text("")


class Base64Source(Record):
    type = Enum("", ("base64",), required=True)
    media_type = Text("accepted; the bytes tell it", limit=NAME_CHARS)
    data = Text("the file in base64", required=True)

    @property
    def address(self) -> str:
        return f"data:;base64,{self.data}"


class UrlSource(Record):
    type = Enum("", ("url",), required=True)
    url = Text("an address, or a data: URL", required=True)

    @property
    def address(self) -> str:
        return self.url


class ImageSource(Field[str]):
    """The address of a picture."""

    SOURCES: Mapping[str, type[Base64Source | UrlSource]] = MappingProxyType({"base64": Base64Source, "url": UrlSource})

    def __init__(self) -> None:
        super().__init__("the picture", "", required=True)

    def read(self, fields: Fields, limits: Limits) -> str:
        if (given := fields.object(self.name)) is None:
            raise fields.error(self.name, "is required")
        return read_variant(given, self.SOURCES, limits).address

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [one.describe(limits) for one in self.SOURCES.values()]}


class ImageBlock(Block):
    type = Enum("", ("image",), required=True)
    source = ImageSource()


class PlainSource(Record):
    type = Enum("", ("text",), required=True)
    media_type = Text("accepted; the document is plain text", limit=NAME_CHARS)
    data = Text("the text", required=True)

    @property
    def text(self) -> str:
        return self.data


class ContentSource(Record):
    type = Enum("", ("content",), required=True)
    content = Content(lambda: {"text": TextBlock})

    @property
    def text(self) -> str:
        return "\n".join(one.text for one in self.content)


class DocumentSource(Field[PlainSource | ContentSource | Base64Source]):
    """The text of a document, or its file."""

    SOURCES: Mapping[str, type[PlainSource | ContentSource | Base64Source]] = MappingProxyType(
        {"text": PlainSource, "content": ContentSource, "base64": Base64Source}
    )
    ELSEWHERE = ("url", "file")
    """Types of sources that name a file."""

    def __init__(self) -> None:
        nothing: Any = None
        super().__init__("the document: a text, blocks of text, or a file of text or PDF", nothing, required=True)

    def read(self, fields: Fields, limits: Limits) -> PlainSource | ContentSource | Base64Source:
        if (given := fields.object(self.name)) is None:
            raise fields.error(self.name, "is required")
        if (kind := given.raw("type")) in self.ELSEWHERE:
            field = given.full("type")
            text = f"{field} {kind} is not supported by this server, which fetches no documents: send it as base64"
            raise NotSupported(text, param=field)
        return read_variant(given, self.SOURCES, limits)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [one.describe(limits) for one in self.SOURCES.values()]}


class DocumentBlock(Block):
    type = Enum("", ("document",), required=True)
    source = DocumentSource()
    title = Text("stands before the text")
    context = Text("stands between title and text")

    @property
    def text(self) -> str:
        """All that is known before a file is read."""
        said = "" if isinstance(self.source, Base64Source) else self.source.text
        return "\n".join(filter(None, (self.title, self.context, said)))

    @property
    def file(self) -> str:
        """The document's file in base64; empty for a text."""
        return self.source.data if isinstance(self.source, Base64Source) else ""


class SearchResultBlock(Block):
    type = Enum("", ("search_result",), required=True)
    source = Text("where the result is from")
    title = Text("stands before the text")
    content = Content(lambda: {"text": TextBlock})

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.title, self.source, *(one.text for one in self.content))))


SAID: Mapping[str, type[Block]] = MappingProxyType(
    {"text": TextBlock, "image": ImageBlock, "document": DocumentBlock, "search_result": SearchResultBlock}
)
"""Blocks that a user and a tool may send."""


class LeftOutResult(Record):
    """A reference to a tool, which the request declares anyway."""

    OPEN = True
    type = Enum("accepted; left out", ("tool_reference",), required=True)


class ToolResultBlock(Block):
    """The result of a call."""

    type = Enum("", ("tool_result",), required=True)
    tool_use_id = Text("the call that it answers", required=True, limit=NAME_CHARS)
    content = Content(lambda: {**SAID, "tool_reference": LeftOutResult})
    is_error = Flag("the call failed")


class ThinkingBlock(Block):
    """Thoughts of a past answer, which the model's chat template keeps or leaves out."""

    type = Enum("", ("thinking",), required=True)
    thinking = Text("")
    signature = Ignored("accepted; this server signs nothing")


class ToolUseBlock(Block):
    """A call that the assistant made."""

    type = Enum("", ("tool_use",), required=True)
    id = Text("by which a result names the call", required=True, limit=NAME_CHARS)
    name = LongToolName()
    input = Input()
    caller = Ignored()

    def call(self) -> ToolCall:
        return ToolCall(self.name, self.input or "{}", self.id)


class LeftOutBlock(Record):
    """A block of a tool that ran at Anthropic, or thoughts that only Anthropic can read."""

    OPEN = True
    TYPES = (
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "compaction",
    )
    type = Enum("accepted; left out", TYPES, required=True)


ASKED: Mapping[str, type[Record]] = MappingProxyType({**SAID, "tool_result": ToolResultBlock})
"""Blocks of a user's message."""
ANSWERED: Mapping[str, type[Record]] = MappingProxyType(
    {"text": TextBlock, "thinking": ThinkingBlock, "tool_use": ToolUseBlock}
    | dict.fromkeys(LeftOutBlock.TYPES, LeftOutBlock)
)
"""Blocks of an assistant's message."""
