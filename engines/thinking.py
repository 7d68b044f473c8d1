"""Thoughts of a reasoning model, separated from its answer.

Reasoning models write ``<think>``, their thoughts, ``</think>`` and then the answer. Some templates write the opening
tag themselves. Only thoughts at the very beginning count. White space around thoughts belongs to neither part.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from edgeserve.messages import ChatEvent, ReasoningEvent, TokenEvent, TokenLogprob

OPEN, CLOSE = "<think>", "</think>"


class State(enum.Enum):
    UNDECIDED = "nothing but white space and part of a tag has come"
    BEFORE = "the tag was there, no thought yet"
    THINKING = "in the thoughts"
    BETWEEN = "after the thoughts, no answer yet"
    ANSWERING = "in the answer"


class Thoughts:
    """A splitter of streamed text. It yields pieces; True marks thoughts. ``opened``: the prompt ended in the opening
    tag."""

    def __init__(self, *, opened: bool = False) -> None:
        self.state = State.BEFORE if opened else State.UNDECIDED
        self._pending = ""

    @property
    def aside(self) -> bool:
        """Whether the last piece was not part of the answer."""
        return self.state in (State.BEFORE, State.THINKING, State.BETWEEN)

    @property
    def over(self) -> bool:
        """Whether all further text is answer."""
        return self.state is State.ANSWERING

    def feed(self, text: str) -> Iterator[tuple[bool, str]]:
        """Pieces that are certain now, none of them empty."""
        self._pending += text
        if self.state is State.UNDECIDED:
            self._decide()
        if self.state in (State.BEFORE, State.THINKING):
            yield from self._think()
        if self.state is State.BETWEEN and (answer := self._pending.lstrip()):
            self.state, self._pending = State.ANSWERING, answer
        if self.state is State.ANSWERING and self._pending:
            piece, self._pending = self._pending, ""
            yield False, piece

    def flush(self) -> Iterator[tuple[bool, str]]:
        """The text held back, once no more comes."""
        thought = self.state in (State.BEFORE, State.THINKING)
        piece = self._pending.rstrip() if thought else self._pending
        if piece and self.state is not State.BETWEEN:
            yield thought, piece
        self._pending = ""

    def _decide(self) -> None:
        begun = self._pending.lstrip()
        if begun.startswith(OPEN):
            self.state, self._pending = State.BEFORE, begun[len(OPEN) :]
        elif not OPEN.startswith(begun):
            self.state = State.ANSWERING

    def _think(self) -> Iterator[tuple[bool, str]]:
        if self.state is State.BEFORE:
            self._pending = self._pending.lstrip()
        thought, closed, after = self._pending.partition(CLOSE)
        held = "" if closed else thought[_certain(thought) :]
        piece = thought.rstrip() if closed else thought[: _certain(thought)]
        if piece:
            self.state = State.THINKING
            yield True, piece
        self._pending = after if closed else held
        if closed:
            self.state = State.BETWEEN


def _certain(text: str) -> int:
    """Length of ``text`` without trailing white space and without a partial closing tag."""
    length = next((size for size in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:size])), 0)
    return len(text[: len(text) - length].rstrip())


class Teller:
    """Turns text into events, each with the logprobs of its tokens. ``thoughts`` None: all text is answer."""

    def __init__(self, thoughts: Thoughts | None) -> None:
        self._thoughts = thoughts
        self._logprobs: list[TokenLogprob] = []
        self.reasoning_tokens = 0

    def note(self, logprob: TokenLogprob) -> None:
        """Remember the logprob of the token whose text is fed next."""
        self._logprobs.append(logprob)

    def feed(self, text: str) -> Iterable[ChatEvent]:
        """Events of one token's text, as far as it is certain."""
        if self._thoughts is not None:
            return self._thought(self._thoughts, text)
        return (self._said(text),) if text else ()

    def finish(self, text: str) -> Iterable[ChatEvent]:
        """Events of the last text, once no more comes."""
        thoughts = self._thoughts
        if thoughts is not None:
            return self._events([*thoughts.feed(text), *thoughts.flush()])
        return self.feed(text)

    def _thought(self, thoughts: Thoughts, text: str) -> Iterator[ChatEvent]:
        yield from self._events(thoughts.feed(text))
        if thoughts.aside:
            self.reasoning_tokens += 1
            self._logprobs.clear()  # reported for the answer only
        elif thoughts.over:
            self._thoughts = None

    def _events(self, pieces: Iterable[tuple[bool, str]]) -> Iterator[ChatEvent]:
        for thought, piece in pieces:
            yield ReasoningEvent(piece) if thought else self._said(piece)

    def _said(self, text: str) -> TokenEvent:
        logprobs, self._logprobs = tuple(self._logprobs), []
        return TokenEvent(text, logprobs)


def opened_by(prompt: str) -> bool:
    """Whether the template has written the opening tag already."""
    return prompt.rstrip().endswith(OPEN)
