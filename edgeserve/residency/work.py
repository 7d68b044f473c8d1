"""One request on its way through a gate, from its place in the queue to its end."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterable
from dataclasses import field, replace

from edgeserve import messages
from edgeserve.dataclass import dataclass
from edgeserve.errors import Cancelled, ContextReduced, EdgeserveError
from edgeserve.jobs import INFO
from edgeserve.messages import ChatRequest, Event, Request
from edgeserve.residency.rounds import Place

METHODS: dict[type, str] = {getattr(messages, one.request): one.method for one in INFO.values()}
METHODS |= {messages.SlotRequest: "manage_slot", messages.TextRequest: "read_text"}
"""The engine's method that answers a request."""


LONG_MESSAGES = 256
"""Messages whose prompt a chat template renders in some 10 ms."""
LONG_TALK = 1 << 16
"""Characters of a conversation that a model reads in some 100 ms. Longer ones are prepared beside all others: the
context bounds their tokens, and white space has 64 characters a token."""
NO_REQUEST: Request = messages.TextRequest()
"""Stands for the request of work that has ended."""


def kind_of(request: Request) -> str:
    """The kind of a request: "chat", "vision", "embed", "rerank", "transcribe" or "speak"."""
    return "vision" if isinstance(request, ChatRequest) and request.images else METHODS[type(request)]


def takes_long(request: Request) -> bool:
    """Whether a request takes so long to prepare that it would delay others: 10 ms, or 100 ms of a chat."""
    match request:
        case messages.EmbedRequest():
            return sum(map(len, request.inputs)) > messages.LONG_CHARS
        case messages.RerankRequest():
            return sum(map(len, request.documents)) > messages.LONG_CHARS
        case messages.TextRequest():
            return request.is_long or (request.chat is not None and takes_long(request.chat))
        case ChatRequest():
            return len(request.messages) > LONG_MESSAGES or size_of_chat(request) > LONG_TALK
    return False


def size_of_chat(chat: ChatRequest) -> int:
    """Characters of a conversation with its tools, and of a raw prompt."""
    told = sum(one.size for one in chat.messages) + sum(tool.size for tool in chat.tools)
    return told + len(chat.prompt or "")


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an answer; ``error`` is None when it ended well."""

    error: EdgeserveError | None = None


def ignore(item: Event | Done) -> None: ...


def always() -> bool:
    return True


def keep(size: int) -> bool:
    return True


def no_room() -> bool:
    return False


def never(work: Work) -> bool:
    return False


def nothing(request: Request) -> None: ...


@dataclass(slots=True, eq=False)
class Work:
    """One request on its way through a gate. Two works are never equal.

    Fields:
        emit      takes each event and last a ``Done``, on the thread where it happens
        room      whether the reader's mailbox takes more; else the answer pauses until the gate's ``wake``
        spare     whether it may go on without room to its next rest
        keep      whether there is room for the bytes of a rest, which count in place of those of the one before
        begun     called on the host's thread as the answer begins, its engine hot; neither waits nor raises
        context   carries the request id to the log lines of other threads
        place     shared by all work of one lease
        prepared  the engine's own form of the request, made before its turn
        arrived, started, rested  when the gate got it, when its turn came, and when its latest part ended, on its clock
        peers     all unfinished work of the gate; any thread
        gives_way as ``Queue.gives_way``
        prompt    tokens of its prompt, where that is long
        told      the prompt was read: something of the answer, beyond its size, was told, or could be
        kept_out  it may not begin beside the answers under way, and has room in the place of one
        reduced   the prompt was too long for a context that memory had made smaller
        patience  until when it waits for the whole one beside other answers, on the gate's clock
        rests     the answer has ended for now, and goes on later
        resumed   a part of it has been given: it counts as under way, also while it waits
        number    in the order in which works began to wait
    """

    request: Request
    emit: Callable[[Event | Done], None]
    room: Callable[[], bool] = always
    begun: Callable[[Request], None] = nothing
    place: Place = field(default_factory=Place)
    cancel: threading.Event = field(default_factory=threading.Event)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    reason: EdgeserveError | None = None
    prepared: object | None = None
    arrived: float | None = None
    started: float | None = None
    peers: Callable[[], Iterable[Work]] = tuple
    gives_way: Callable[[Work], bool] = never
    reduced: ContextReduced | None = None
    patience: float | None = None
    rests: bool = False
    resumed: bool = False
    rested: float = 0.0
    keep: Callable[[int], bool] = keep
    spare: Callable[[], bool] = no_room
    number: int = 0
    kept_out: bool = False
    prompt: int = 0
    told: bool = False

    @property
    def whole(self) -> bool:
        """Whether the answer needs the whole context."""
        return self.reduced is not None

    @property
    def reads(self) -> bool:
        """Whether a long prompt has still to be read."""
        return bool(self.prompt) and not self.told

    def let_go(self) -> None:
        """Forget the request and the reader, behind the end: errors and readers know the work, and it knows them.

        Such circles last until a collection, which an idle server may never see.
        """
        self.request, self.prepared = NO_REQUEST, None
        self.emit, self.room, self.spare, self.keep = ignore, always, no_room, keep

    def tell(self, event: Event) -> None:
        """Pass an event on."""
        self.emit(event)
        self.told = self.told or not isinstance(event, messages.PromptEvent | messages.LoosenedEvent)

    def abort(self, reason: EdgeserveError) -> None:
        """Stop within one token or segment and end with ``reason``. The first reason counts."""
        self.reason = self.reason or reason
        self.cancel.set()

    def rest_behind(self, event: Event, count: int) -> bool:
        """End the answer for now behind its latest event; ``count`` of them were told. The work waits for what is left.

        False where nothing is left, or the state has no room. A list of texts has an event for each.
        """
        request = self.request
        if isinstance(event, messages.Rest) and isinstance(request, messages.SpeechRequest):
            if not self.keep(len(event.state)):
                return False
            self.request = replace(request, rest=event)
        elif isinstance(request, messages.EmbedRequest) and count < len(request.inputs):
            self.request = replace(request, inputs=request.inputs[count:])
        elif isinstance(request, messages.RerankRequest) and count < len(request.documents):
            self.request = replace(request, documents=request.documents[count:])
        else:
            return False
        self.prepared, self.rests, self.resumed = None, True, True
        return True

    def ask_for_whole(self, error: Exception | None) -> bool:
        """Ask for the whole context after ``error``, which ended the answer before it began. False where it may not.

        It may once. A prompt that is only read ahead moves no engine.
        """
        if self.whole or not isinstance(error, ContextReduced) or getattr(self.request, "ahead", False):
            return False
        error.__traceback__ = None  # its frames know the request
        self.reduced, self.prepared = error, None
        return True

    @property
    def is_long_text(self) -> bool:
        """Whether this is much to read, which is prepared beside all other requests."""
        return takes_long(self.request)

    @property
    def cancelled(self) -> EdgeserveError | None:
        """Why nobody wants the answer any more; None while somebody does."""
        if not self.cancel.is_set():
            return None
        return self.reason or Cancelled("the request was cancelled")

    def check_wanted(self) -> None:
        """Raises the reason when nobody wants the answer any more."""
        if (reason := self.cancelled) is not None:
            raise reason


@dataclass(frozen=True, slots=True, eq=False)
class Admitted:
    """Work that may begin on a hot engine. ``held`` gives its memory back; ``started`` is on the gate's clock."""

    work: Work
    started: float
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
