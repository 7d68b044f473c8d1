"""Items of a conversation, as clients send them: messages, calls, results, thoughts, and references to stored items."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.calls import Arguments
from edgeserve.api.content import Content, Parts
from edgeserve.api.fields import NAME_CHARS, Fields, clipped
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Objects, Record
from edgeserve.api.tools import ToolName
from edgeserve.api.values import Enum, Ignored, Text
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Role

ROLES: Mapping[str, Role] = MappingProxyType(
    {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
)
DROPPED = (
    "additional_tools",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
)
"""Types of items of tools that are not here. A client may send them from a conversation with another server."""


class Item(Record):
    """One item. Its ``id``, ``status`` and ``phase`` are those of an answer that comes back."""

    PREFIX = ""
    """Beginning of the id that an item gets where it has none; empty for an item that is not kept."""

    id = Text("the item's own id", limit=NAME_CHARS)
    status = Ignored()

    @property
    def place(self) -> str:
        """The item in the request: "input[0]"."""
        return self._given.full("").removesuffix(".")

    @abstractmethod
    def told(self) -> dict[str, Any]:
        """The item as in lists of items, without its id."""

    def raw(self, name: str) -> Any:
        return self._given.raw(name)


class ItemContent(Content):
    """A text, or a list of parts, which may be empty."""

    def read(self, fields: Fields, limits: Limits) -> Parts:
        return Parts() if fields.raw(self.name) == [] else super().read(fields, limits)

    def schema(self, limits: Limits) -> dict[str, Any]:
        text, parts = super().schema(limits)["oneOf"]
        return {"oneOf": [text, {name: one for name, one in parts.items() if name != "minItems"}]}


class RequiredContent(ItemContent):
    """Content that an item cannot do without."""

    def __init__(self) -> None:
        super().__init__()
        self.required = True


class MessageItem(Item):
    PREFIX = "msg"
    type = Enum("", ("message",), default="message")
    role = Enum("who speaks; developer is system", tuple(ROLES), required=True)
    content = RequiredContent()
    phase = Ignored("of an answer that comes back")

    def told(self) -> dict[str, Any]:
        content = self.raw("content")
        if isinstance(content, str):
            kind = "output_text" if self.role == "assistant" else "input_text"
            annotated: dict[str, Any] = {"annotations": []} if self.role == "assistant" else {}
            content = [{"type": kind, "text": content} | annotated]
        return {"type": "message", "role": self.role, "status": "completed", "content": content}


class CallItem(Item):
    """A call that the assistant made."""

    PREFIX = "fc"
    type = Enum("", ("function_call",), required=True)
    call_id = Text("by which a result names the call", required=True, limit=NAME_CHARS)
    name = ToolName()
    arguments = Arguments()
    namespace = Ignored()
    caller = Ignored()

    def told(self) -> dict[str, Any]:
        named = {"call_id": self.call_id, "name": self.name, "arguments": self.arguments}
        return {"type": "function_call", "status": "completed"} | named


class ResultItem(Item):
    """The result of a call."""

    PREFIX = "fco"
    type = Enum("", ("function_call_output",), required=True)
    call_id = Text("the call that it answers; left out: the oldest open one", limit=NAME_CHARS)
    output = RequiredContent()
    name = Text("of the function", limit=NAME_CHARS)
    namespace = Ignored()
    caller = Ignored()

    def told(self) -> dict[str, Any]:
        return {
            "type": "function_call_output",
            "status": "completed",
            "call_id": self.call_id,
            "output": self.raw("output"),
        }


class ThoughtPart(Record):
    """A text among thoughts or their summaries."""

    OPEN = True
    text = Text("")


class ThoughtItem(Item):
    """Thoughts of an earlier turn, which the model's chat template keeps or leaves out."""

    PREFIX = "rs"
    type = Enum("", ("reasoning",), required=True)
    summary = Objects("accepted; it changes nothing here", ThoughtPart, empty=True)
    content = Objects("the thoughts", ThoughtPart, empty=True)
    encrypted_content = Ignored("accepted; the server encrypts nothing")

    def told(self) -> dict[str, Any]:
        content = [{"type": "reasoning_text", "text": one.text} for one in self.content]
        summary = [{"type": "summary_text", "text": one.text} for one in self.summary]
        return {"type": "reasoning", "summary": summary, "content": content}


class ReferenceItem(Item):
    """An item of a stored response."""

    type = Enum("", ("item_reference",), default="item_reference")
    id = Text("the id of the item", required=True, limit=NAME_CHARS)

    @classmethod
    def describe(cls, limits: Limits) -> dict[str, Any]:
        return super().describe(limits) | {"not": {"required": ["role"]}}  # with a role it is a message

    def told(self) -> dict[str, Any]:
        return {"type": "item_reference"}


class DroppedItem(Item):
    """An item of a tool that is not here. It is left out."""

    OPEN = True
    type = Enum("left out: the server has no tools of these types", DROPPED, required=True)
    id = Ignored()  # type: ignore[assignment]

    def told(self) -> dict[str, Any]:
        return {"type": self.type}


TYPES: Mapping[str, type[Item]] = MappingProxyType(
    {
        "message": MessageItem,
        "function_call": CallItem,
        "function_call_output": ResultItem,
        "reasoning": ThoughtItem,
        "item_reference": ReferenceItem,
    }
    | dict.fromkeys(DROPPED, DroppedItem)
)


def read_item(fields: Fields, limits: Limits) -> Item:
    """The item of an object. Raises InvalidRequest, also for a type that nobody knows."""
    name = fields.text("type", limit=NAME_CHARS)
    if not name:  # as clients leave it out
        name = "message" if fields.has("role") or not fields.has("id") else "item_reference"
    if name not in TYPES:
        known = ", ".join(one for one in TYPES if one not in DROPPED)
        raise InvalidRequest(
            f"{fields.full('type')} must be one of {known}, not {clipped(name, 80)!r}", param=fields.full("type")
        )
    return TYPES[name](fields, limits)


def describe(limits: Limits) -> dict[str, Any]:
    """The JSON schema of an item."""
    return {"oneOf": [one.describe(limits) for one in dict.fromkeys(TYPES.values())]}
