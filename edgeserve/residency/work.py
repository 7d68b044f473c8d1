"""One request on its way through a gate, and how it ends."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from edgeserve import messages
from edgeserve.errors import EdgeserveError
from edgeserve.jobs import INFO
from edgeserve.messages import ChatRequest, Event, Request

METHODS: dict[type, str] = {getattr(messages, one.request): one.method for one in INFO.values()}
"""The engine's method that answers a request."""


def kind_of(request: Request) -> str:
    """What is asked for: "chat", "vision", "embed", "transcribe" or "speak"."""
    return "vision" if isinstance(request, ChatRequest) and request.images else METHODS[type(request)]


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a run; ``error`` is None when it ended well."""

    error: EdgeserveError | None = None


def always() -> bool:
    return True


@dataclass(slots=True, eq=False)
class Work:
    """One request on its way through a gate.

    ``emit`` takes each event and last a ``Done``, on the thread where it happens. ``room`` says whether the reader's
    mailbox takes more; an answer without room pauses until ``wake`` is called. ``context`` carries the request id over
    to the log lines of other threads. ``prepared`` is what the engine made of the request before its turn.
    """

    request: Request
    emit: Callable[[Event | Done], None]
    room: Callable[[], bool] = always
    cancel: threading.Event = field(default_factory=threading.Event)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    reason: EdgeserveError | None = None
    prepared: object | None = None

    def abort(self, reason: EdgeserveError) -> None:
        """Stop within one token or segment and end with ``reason``."""
        self.reason = self.reason or reason
        self.cancel.set()
