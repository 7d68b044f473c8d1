"""Events of one answer that a worker has sent."""

from __future__ import annotations

from collections import deque
from dataclasses import field
from typing import get_args

from edgeserve import messages
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, Request
from edgeserve.processes.frames import Broken
from edgeserve.residency.weight import weigh

KINDS: dict[type, tuple[type, ...]] = {
    messages.ChatRequest: get_args(messages.ChatEvent),
    messages.EmbedRequest: (messages.EmbeddingEvent,),
    messages.RerankRequest: (messages.RerankEvent,),
    messages.TranscribeRequest: (*get_args(messages.TranscribeEvent), messages.Rest),
    messages.DiarizeRequest: (messages.SpeakerEvent, messages.Rest),
    messages.SpeakRequest: (messages.AudioEvent, messages.Rest),
    messages.SlotRequest: (messages.SlotEvent,),
    messages.TextRequest: (messages.TextEvent,),
}
"""Events that answer a request."""


def kinds_of(request: Request) -> tuple[type, ...]:
    return KINDS[type(request)]


@dataclass(slots=True)
class Inbox:
    """Events of one answer that have arrived. The link's thread puts them, the host's thread takes them.

    ``kinds``: events that may come. ``untold``: bytes taken that the worker does not know of yet. ``rests``: the latest
    event that was taken is a ``Rest``.
    """

    number: int
    kinds: tuple[type, ...]
    events: deque[Event] = field(default_factory=deque)
    untold: int = 0
    rests: bool = False
    ended: bool = False
    error: EdgeserveError | None = None
    _come: int = 0
    _told: int = 0

    def put(self, event: Event, window: int) -> None:
        """Add an event. Raises Broken for one that cannot answer the request, and beyond the window: so a worker that
        does not stop takes no memory here."""
        if not isinstance(event, self.kinds):
            raise Broken(f"an event that is no answer: {type(event).__name__}")
        if self._come - self._told >= window:
            raise Broken(f"events beyond the {window} bytes that the reader has room for")
        self._come += weigh(event)
        self.events.append(event)

    def take(self) -> Event:
        """The next event. Raises IndexError when none is there."""
        event = self.events.popleft()
        self.untold += weigh(event)
        self.rests = isinstance(event, messages.Rest)
        return event

    def tell(self) -> int:
        """Bytes to report to the worker. Call this before the report: the worker may continue at once."""
        size, self.untold = self.untold, 0
        self._told += size
        return size


class Over(Exception):
    """An answer has ended well."""
