"""Items of a conversation as the messages that a model's chat template takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import field

from edgeserve.api.content import Parts, Pending
from edgeserve.api.conversation import Conversation, OpenCalls
from edgeserve.api.responses.items import ROLES, CallItem, Item, MessageItem, ResultItem, ThoughtItem
from edgeserve.dataclass import dataclass
from edgeserve.messages import Message, Role, TextPart, ToolCall


@dataclass(slots=True)
class Turn:
    """A message of a conversation that grows."""

    role: Role
    texts: list[TextPart] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    answers: str = ""
    thoughts: list[str] = field(default_factory=list)

    def say(self, said: Parts) -> None:
        """Add the parts of another message, after an empty line."""
        if self.texts or self.pending:
            self.texts.append(TextPart("\n\n"))
        before = len(self.texts) + len(self.pending)
        self.texts += said.texts
        self.pending += [dataclasses.replace(one, part=one.part + before) for one in said.pending]

    @property
    def said(self) -> bool:
        """Whether the turn has more than thoughts."""
        return bool(self.texts or self.pending or self.calls)

    def message(self) -> Message:
        """The message without its pictures, sounds and files."""
        return Message(self.role, tuple(self.texts), tuple(self.calls), self.answers, "".join(self.thoughts))


def conversation(instructions: str, items: Iterable[Item]) -> Conversation:
    """The messages of all items, without their pictures, sounds and files, and those.

    - ``instructions`` and system messages at the beginning become one message: many templates take one
    - thoughts, a text and the calls after it are one turn of the assistant, as the model said them
    """
    turns = [Turn("system", [TextPart(instructions)])] if instructions else []
    open_calls = OpenCalls()
    for item in items:
        match item:
            case MessageItem():
                _speak(turns, item)
            case ThoughtItem():
                turn = _assistant(turns, fresh=True)
                turn.thoughts += [one.text for one in item.content]
            case CallItem():
                call = ToolCall(item.name, item.arguments, item.call_id)
                open_calls.add((call,))
                _assistant(turns).calls.append(call)
            case ResultItem():
                said = item.output or Parts()
                answers = open_calls.answered(item.call_id.strip(), item.name)
                turns.append(Turn("tool", list(said.texts), list(said.pending), answers=answers))
    turns = [one for one in turns if one.said or one.role != "assistant"]
    messages = tuple(one.message() for one in turns)
    pictures = (dataclasses.replace(one, message=at) for at, turn in enumerate(turns) for one in turn.pending)
    return Conversation(messages, tuple(pictures))


def _speak(turns: list[Turn], item: MessageItem) -> None:
    said, role = item.content or Parts(), ROLES[item.role]
    if role == "assistant":
        turn = _assistant(turns, fresh=True)
        turn.texts, turn.pending = list(said.texts), list(said.pending)
    elif role == "system" and len(turns) == 1 and turns[0].role == "system":
        turns[0].say(said)
    else:
        turns.append(Turn(role, list(said.texts), list(said.pending)))


def _assistant(turns: list[Turn], *, fresh: bool = False) -> Turn:
    """The assistant's turn at the end; with ``fresh``, one that has nothing but thoughts."""
    if not turns or turns[-1].role != "assistant" or (fresh and turns[-1].said):
        turns.append(Turn("assistant"))
    return turns[-1]
