"""The bytes that a session keeps: its sound, items and settings, and events that wait for the client."""

from __future__ import annotations

import sys

from edgeserve.api.json_body import VALUE_BYTES, values
from edgeserve.api.places import Place
from edgeserve.api.realtime.outbox import Outbox
from edgeserve.api.realtime.session import Session
from edgeserve.talk.overhearing import Overhearing
from edgeserve.talk.recorded import SECOND

FEW_BYTES = 64 << 10
"""Bytes of an event that is taken in however much its client keeps, such as the result of a tool."""


class Keeping:
    """``place`` counts the bytes. The owner tells of those that its work takes, and calls ``count`` as they change."""

    def __init__(self, session: Session, place: Place, outbox: Outbox) -> None:
        self._session, self._place, self._outbox = session, place, outbox
        self.work: dict[object, int] = {}
        """Tasks with the bytes of what they work on."""
        self.coming = 0
        """Bytes of the event that is taken."""
        self.overhearing: Overhearing | None = None
        """The live words of the turn under way."""

    def take(self, event: str, *, freely: bool) -> None:
        """Count an event with its values, as ``keep`` does and with its errors.

        ``freely``: an event of few bytes is taken in without. What it leaves counts in ``taken``.
        """
        size = sys.getsizeof(event) + VALUE_BYTES * values(event.encode())
        if not freely or size > FEW_BYTES:
            self.keep(size)
        self.coming = size

    def taken(self) -> None:
        """Count what the event has left."""
        self.coming = 0
        self.count()

    def keep(self, coming: int) -> None:
        """Count what comes, sound in bytes as engines hear it. Raises Busy where the client keeps too much."""
        self._place.keep(self._size + coming)

    def count(self) -> None:
        """Count what the session keeps now."""
        self._place.count(self._size)

    @property
    def _size(self) -> int:
        sound = int(self._session.buffer.seconds * SECOND) + (self.overhearing.size if self.overhearing else 0)
        texts = self._session.conversation.held + self._session.config.held + self._outbox.held
        return sound + texts + sum(self.work.values())
