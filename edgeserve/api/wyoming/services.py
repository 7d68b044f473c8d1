"""The parts of the server that Wyoming's connections share, and the sending end of one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from edgeserve.api.limits import Limits
from edgeserve.api.wyoming.events import Event
from edgeserve.api.wyoming.memory import Memory
from edgeserve.dataclass import dataclass
from edgeserve.live.sessions import Sessions
from edgeserve.residency.pool import Pool

Send = Callable[[Event], Awaitable[None]]
"""Sends an event, and waits while the client does not read."""


@dataclass(frozen=True, slots=True)
class Services:
    """``memory``: the turns of conversations."""

    pool: Pool
    sessions: Sessions
    limits: Limits
    memory: Memory
