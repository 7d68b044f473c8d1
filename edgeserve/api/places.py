"""Places for sessions: bounded in number and in bytes of sound, for each client and for all together."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

from edgeserve.clients import Client, Groups
from edgeserve.errors import Busy
from edgeserve.memory.traffic import Kept, Traffic
from edgeserve.shares import Shares, half, has_share
from edgeserve.units import MB

SILENT_SECONDS = 60.0
"""A session without events for so long gives its place to a client that has fewer."""
KEPT_BYTES, KEPT_SHARE = 96 * MB, 8
"""Bytes that all sessions keep, of sound and of their items, and bytes of the machine's memory for each of them.

Clients share them; one has half of them at most. The budget leaves as much to clients beside all engines.
"""


def most_kept(memory: int) -> int:
    """Bytes that sessions may keep on a machine of so many bytes."""
    return min(KEPT_BYTES, memory // KEPT_SHARE)


class Place:
    """The place of one session."""

    def __init__(self, places: Places, client: Client) -> None:
        self.client, self.groups = client.group, client.groups
        self.lost = asyncio.Event()
        """Whether the session must end, since its place has been given away."""
        self._places, self._kept = places, Kept(places.traffic)
        self.touch()

    @property
    def held(self) -> int:
        """Bytes that the session keeps."""
        return self._kept.size

    def touch(self) -> None:
        """Note that the session is in use."""
        self.last_used = self._places.clock()

    def keep(self, size: int) -> None:
        """Count the bytes that the session keeps from now on. Raises Busy for more than the client may have.

        The count stays as it was then.
        """
        if size > self.held:
            self._places.check(self, size)
        self.count(size)

    def count(self, size: int) -> None:
        """Count the bytes that the session keeps from now on, however many."""
        self._kept.count(size)


class Places:
    """At most ``limit`` sessions at once; one client has a share of them (``has_share``).

    ``words``: what the sessions are. ``remedy``: what a refused client may do. ``clock`` counts seconds.
    ``most_kept``: bytes that all sessions may keep, which ``traffic`` counts.
    """

    def __init__(
        self,
        limit: int,
        words: str = "conversations",
        remedy: str = "close one, or raise live_sessions in models.toml",
        clock: Callable[[], float] = time.monotonic,
        *,
        most_kept: int = KEPT_BYTES,
        traffic: Traffic | None = None,
    ) -> None:
        self.clock, self.traffic = clock, traffic or Traffic()
        self._limit, self.most_kept = limit, most_kept
        self._words, self._remedy = words, remedy
        self._open: list[Place] = []

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def one(self, client: Client) -> Iterator[Place]:
        """A place for the time of a session. Raises Busy."""
        self._make_room(client.groups)
        place = Place(self, client)
        self._open.append(place)
        try:
            yield place
        finally:
            place.count(0)
            if place in self._open:
                self._open.remove(place)

    def check(self, asking: Place, size: int) -> None:
        """Raises Busy where a session may not keep so many bytes."""
        others = sum(one.held for one in self._open if one.client == asking.client and one is not asking)
        share = self.most_kept // max(2, len({one.client for one in self._open}))
        if others + size > share:
            text = f"your conversations keep {(others + asking.held) / MB:.1f} MB of sound and items, and the limit is"
            text += f" {share / MB:.0f} MB; this was not taken in: commit, clear or delete some, or send slower"
            raise Busy(text, retry_after=2)

    def _make_room(self, groups: Groups) -> None:
        """Take the place of a silent session of the client with the most, where all are taken. Raises Busy."""
        shares = Shares(one.groups for one in self._open)
        if not has_share(self._limit, shares, groups):
            return
        if len(shares) < self._limit or shares.held(groups) >= half(self._limit):
            raise self._full(f"{shares.held_by_key(groups)} {self._words} of yours", " for one client now")
        greedier, latest = shares.greedier(groups), self.clock() - SILENT_SECONDS
        silent = [one for one in self._open if one.last_used <= latest and one.groups in greedier]
        if not silent:
            raise self._full(f"{len(shares)} {self._words}", "")
        victim = min(silent, key=lambda one: (greedier.index(one.groups), one.last_used))
        self._open.remove(victim)
        victim.lost.set()

    def _full(self, count: str, whose: str) -> Busy:
        return Busy(f"{count} are open, which is the limit{whose}: {self._remedy}", retry_after=5)
