"""Events of one answer that a worker has sent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event


@dataclass(slots=True)
class Inbox:
    """Events of one answer that have arrived. ``taken``: bytes passed on that the worker does not know of yet."""

    number: int
    events: deque[Event] = field(default_factory=deque)
    taken: int = 0
    ended: bool = False
    error: EdgeserveError | None = None


class Over(Exception):
    """An answer has ended well."""
