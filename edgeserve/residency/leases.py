"""The leases on one engine: its bounded places, who holds them, and how long the engine stays after them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from edgeserve.clients import Client, Groups
from edgeserve.errors import Busy, ShuttingDown
from edgeserve.residency.host import Host
from edgeserve.residency.turns import Turns
from edgeserve.residency.wishes import Wishes
from edgeserve.residency.work import Work
from edgeserve.shares import Shares

BEYOND = 2
"""Most leases, in places of the engine and its queue, where answers that rest or are unread hold them."""


class Leases:
    """Any thread. ``state``: the gate's lock. Other arguments as in ``Gate``."""

    def __init__(
        self,
        host: Host,
        turns: Turns,
        state: threading.Condition,
        queue_limit: int,
        keep_alive: float | None,
        clock: Callable[[], float],
    ) -> None:
        self.queue_limit = queue_limit
        self.last_used = clock()
        """Time of the clock at which the last lease ended."""
        self.keep_alive = keep_alive
        """Idle seconds that requests ask for, in place of the configured ones; infinite: to stay.

        The latest request says, unless another client still wants the engine for longer.
        """
        self.closed = False
        """True once the engine takes no new leases."""
        self._host = host
        self._turns = turns
        self._state = state
        self._own_keep_alive = keep_alive
        self._shares = Shares()
        self._wishes = Wishes(clock)
        self._clock = clock

    def __len__(self) -> int:
        return len(self._shares)

    def add(self, keep_alive: float | None, client: Client) -> None:
        """Count a lease, and note how long the engine stays after it.

        When all places are taken, the client with the most gives its last waiting one up for a client with fewer. If
        none waits and its answers rest or are not read, the client with fewer gets a place beyond the limit. Such
        answers leave the engine to others. One that has waited for its reader for too long gives its place up, unless
        its client has fewer. Raises Busy when there is none, and ShuttingDown when the server drains.
        """
        displaced: Work | None = None
        with self._state:
            if self.closed:
                raise ShuttingDown("the server is shutting down and takes no new requests", retry_after=5)
            most = self.queue_limit + self._host.slots
            if len(self) >= most and not self._turns.cut_slowest(self._gives(client.groups)):
                greedier = self._shares.greedier(client.groups)
                gives = self._gives(client.groups, greedier)
                displaced = self._turns.withdraw_last(greedier) or self._turns.withdraw_unread(gives)
                if displaced is not None:
                    reason = self._full(self._shares.held(displaced.place.groups))
                elif len(self) >= BEYOND * most or not self._turns.pauses(greedier):
                    raise self._full()
            self._shares.add(client.groups)
            wanted = self._own_keep_alive if keep_alive is None else keep_alive
            self.keep_alive = self._wishes.agreed(client.groups, wanted)
            self._wishes.note(client.groups, wanted)
        if displaced is not None:
            self._turns.end_withdrawn(displaced, reason)

    def _gives(self, groups: Groups, greedier: Collection[Groups] = ()) -> Callable[[Work], bool]:
        """Says which unread answers may end for a client: of ``greedier`` ones, and of those with no fewer places."""
        held = self._shares.held
        return lambda work: work.place.groups in greedier or held(work.place.groups) >= held(groups)

    def _full(self, yours: int = 0) -> Busy:
        """``yours``: the places of a client that gives one up for another client; 0 for a client that gets none."""
        slots = self._host.slots
        running = "one request runs" if slots == 1 else f"{slots} requests run"
        text = f"{self._host.spec.id} is busy: {running} and all {self.queue_limit} places in its queue are taken"
        if yours:
            text += f", {yours} of both by you, and a client with fewer took this one"
        wait = min(60.0, max(1.0, round(self._turns.typical_seconds * len(self) / slots)))
        return Busy(f"{text}; try again later or raise queue_limit in models.toml", retry_after=wait)

    def remove(self, client: Client) -> None:
        """Give a lease of the client back and stamp the last use."""
        with self._state:
            self._shares.remove(client.groups)
            self._wishes.stamp(client.groups)
            self.last_used = self._clock()
            self._state.notify_all()

    def wanted_by_others(self, client: Client) -> bool:
        """Whether a client other than this one wants the engine to stay now."""
        with self._state:
            return self._wishes.of_others(client.groups) > 0

    def used_now(self) -> None:
        """Stamp a use without a lease: the engine was loaded."""
        with self._state:
            self.last_used = self._clock()
            if not len(self):
                self.keep_alive = self._own_keep_alive

    def touch(self) -> None:
        """Stamp a use beside all requests. The idle seconds that requests asked for stay."""
        with self._state:
            self.last_used = self._clock()

    def tune(self, keep_alive: float | None) -> None:
        """Take other idle seconds from now on. Those that a request asked for stay."""
        with self._state:
            if self.keep_alive == self._own_keep_alive:
                self.keep_alive = keep_alive
            self._own_keep_alive = keep_alive

    def drain(self, until: float) -> bool:
        """Take no new leases and wait for those out until the clock shows ``until``; True when none is left."""
        with self._state:
            self.closed = True
            seconds = min(max(0.0, until - self._clock()), threading.TIMEOUT_MAX)
            return self._state.wait_for(lambda: not len(self), seconds)
