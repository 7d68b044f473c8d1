"""Messages and system text of a request, as a conversation that chat templates take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Literal

from edgeserve.api.anthropic import billing
from edgeserve.api.anthropic.blocks import (
    ANSWERED,
    ASKED,
    DocumentBlock,
    ImageBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from edgeserve.api.anthropic.values import Blocks, Content
from edgeserve.api.content import Pending
from edgeserve.api.conversation import Conversation
from edgeserve.api.fields import NAME_CHARS, Fields, clipped
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Record, listed
from edgeserve.api.values import Enum
from edgeserve.dataclass import dataclass
from edgeserve.messages import Message, Role, TextPart, ToolCall

FAILED = "Error: "
"""Beginning of the result of a call that failed."""


class AskedMessage(Record):
    """A message of the user. Newer clients send system texts among the messages."""

    role = Enum("who speaks", ("user", "system"), required=True)
    content = Content(lambda: ASKED, required=True)


class AnsweredMessage(Record):
    """A message of the assistant."""

    role = Enum("who speaks", ("assistant",), required=True)
    content = Content(lambda: ANSWERED, required=True)


MESSAGES: dict[str, type[AskedMessage | AnsweredMessage]] = {
    "user": AskedMessage,
    "system": AskedMessage,
    "assistant": AnsweredMessage,
}
"""Records of messages by role."""


class MessagesField(Field[tuple[AskedMessage | AnsweredMessage, ...]]):
    """The field ``messages``."""

    def __init__(self) -> None:
        super().__init__(
            "the conversation so far; a last message of the assistant begins the answer", (), required=True
        )

    def read(self, fields: Fields, limits: Limits) -> tuple[AskedMessage | AnsweredMessage, ...]:
        return tuple(_message(one, limits) for one in fields.objects(self.name))

    def schema(self, limits: Limits) -> dict[str, Any]:
        items = {"oneOf": [one.describe(limits) for one in dict.fromkeys(MESSAGES.values())]}
        example = [{"role": "user", "content": "Name a bird."}]
        return {"type": "array", "minItems": 1, "items": items, "examples": [example]}


def _message(fields: Fields, limits: Limits) -> AskedMessage | AnsweredMessage:
    role = fields.required_text("role", limit=NAME_CHARS)
    if role not in MESSAGES:
        raise fields.error("role", f"must be {listed(MESSAGES)}, not {clipped(role, 80)!r}")
    return MESSAGES[role](fields, limits)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A picture, or the file of a document, that is still to be read: its address, and the field that holds it."""

    kind: Literal["picture", "file"]
    address: str
    param: str


@dataclass(slots=True)
class Turn:
    """A message of a conversation that grows."""

    role: Role
    parts: list[str | Waiting] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    call_id: str = ""

    def say(self, text: str) -> None:
        """Add a text on a line of its own."""
        if text:
            self._begin_line()
            self.parts.append(text)

    def attach(self, one: Waiting) -> None:
        """Add a picture, or a file on a line of its own."""
        if one.kind == "file":
            self._begin_line()
        self.parts.append(one)

    def _begin_line(self) -> None:
        if not self.parts:
            return
        last = self.parts[-1]
        if last.kind == "file" if isinstance(last, Waiting) else not last.endswith("\n"):
            self.parts.append("\n")

    def message(self) -> Message:
        """The message without its pictures and files."""
        texts = tuple(TextPart(one) for one in self.parts if isinstance(one, str))
        return Message(self.role, texts, tuple(self.calls), self.call_id, "\n".join(self.thoughts))

    def pending(self, at: int) -> Iterable[Pending]:
        for place, one in enumerate(self.parts):
            if isinstance(one, Waiting):
                yield Pending(one.kind, one.address, one.param, place, at)


@dataclass(frozen=True, slots=True)
class Given:
    """The conversation of a request. ``continues``: its last message begins the answer."""

    conversation: Conversation
    continues: bool


def conversation(system: Blocks, messages: Sequence[AskedMessage | AnsweredMessage]) -> Given:
    """Turns of one role become one, as Anthropic has it: templates may want roles to alternate."""
    turns: list[Turn] = []
    texts = [text for one in system if (text := billing.without(one.text))]
    if texts:
        _said(turns, "system", texts)
    for message in messages:
        if isinstance(message, AnsweredMessage):
            _answer(turns, message)
        else:
            _ask(turns, message)
    continues = _prefilled(turns)
    pending = tuple(one for at, turn in enumerate(turns) for one in turn.pending(at))
    return Given(Conversation(tuple(turn.message() for turn in turns), pending), continues)


def _turn(turns: list[Turn], role: Role) -> Turn:
    """The last turn if it is one of the role, else a new one."""
    if not turns or turns[-1].role != role:
        turns.append(Turn(role))
    return turns[-1]


def _said(turns: list[Turn], role: Role, texts: Iterable[str]) -> None:
    turn = _turn(turns, role)
    for text in texts:
        turn.say(text)


def _ask(turns: list[Turn], message: AskedMessage) -> None:
    """Results of calls come before all else that the user says with them."""
    results = [one for one in message.content if isinstance(one, ToolResultBlock)]
    for result in results:
        turns.append(Turn("tool", call_id=result.tool_use_id))
        _fill(turns[-1], result.content)
        if result.is_error:
            turns[-1].parts.insert(0, FAILED)
    others = [one for one in message.content if not isinstance(one, ToolResultBlock)]
    if others or not results:
        _fill(_turn(turns, "system" if message.role == "system" else "user"), others)


def _answer(turns: list[Turn], message: AnsweredMessage) -> None:
    turn = _turn(turns, "assistant")
    for block in message.content:
        if isinstance(block, ToolUseBlock):
            turn.calls.append(block.call())
        elif isinstance(block, ThinkingBlock):
            turn.thoughts.append(block.thinking)
        elif isinstance(block, TextBlock):
            turn.say(block.text)


def _fill(turn: Turn, blocks: Iterable[Record]) -> None:
    for block in blocks:
        if isinstance(block, ImageBlock):
            turn.attach(Waiting("picture", block.source, block.param))
        elif isinstance(block, TextBlock | DocumentBlock | SearchResultBlock):
            turn.say(block.text)
            if isinstance(block, DocumentBlock) and block.file:
                turn.attach(Waiting("file", block.file, block.param))


def _prefilled(turns: list[Turn]) -> bool:
    """Whether the last turn begins the answer. White space at its end would confuse a model, and is removed."""
    last = turns[-1]
    if last.role != "assistant" or last.calls:
        return False
    text = "".join(one for one in last.parts if isinstance(one, str)).rstrip()
    if not text:
        turns.pop()
        return False
    last.parts = [text]
    return True
