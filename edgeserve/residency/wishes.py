"""The wishes of clients that an engine stays loaded (``keep_alive``): none of them ends another client's."""

from __future__ import annotations

from collections.abc import Callable

from edgeserve.clients import Groups
from edgeserve.dataclass import dataclass

UNTOLD_SECONDS = 60.0
"""Idle seconds for which an engine stays for a client that asked for none."""
LONGEST_SECONDS = 3600.0
"""Idle seconds for which the wish of one client counts against those of others, however long it is."""
MOST = 256
"""Clients whose wishes are remembered; the oldest is forgotten first."""


@dataclass(frozen=True, slots=True)
class _Wish:
    keep_alive: float
    at: float


class Wishes:
    """The latest wish of each client. Not for several threads at once. ``clock`` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._wishes: dict[Groups, _Wish] = {}

    def note(self, client: Groups, keep_alive: float | None) -> None:
        """Remember what a client asked for just now; None: nothing."""
        self._wishes.pop(client, None)
        wanted = UNTOLD_SECONDS if keep_alive is None else min(keep_alive, LONGEST_SECONDS)
        self._wishes[client] = _Wish(wanted, self._clock())
        while len(self._wishes) > MOST:
            del self._wishes[next(iter(self._wishes))]

    def stamp(self, client: Groups) -> None:
        """Let the time of the client's wish begin now: its request has ended."""
        if (wish := self._wishes.get(client)) is not None:
            self.note(client, wish.keep_alive)

    def of_others(self, client: Groups) -> float:
        """Seconds from now for which other clients want the engine, at least 0."""
        now = self._clock()
        self._wishes = {who: one for who, one in self._wishes.items() if one.at + one.keep_alive > now or who == client}
        return max((one.at + one.keep_alive - now for who, one in self._wishes.items() if who != client), default=0.0)

    def agreed(self, client: Groups, keep_alive: float | None) -> float | None:
        """Idle seconds that suit the client and all others; None: as the monitor's policy says."""
        others = self.of_others(client)
        own = UNTOLD_SECONDS if keep_alive is None else keep_alive
        return keep_alive if own >= others else others
