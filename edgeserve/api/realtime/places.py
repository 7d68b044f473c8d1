"""Places for sessions, bounded in number for each client and for all together."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from edgeserve.clients import Client, client_of
from edgeserve.errors import Busy


class Places:
    """At most ``limit`` sessions at once, and half as many from one address.

    ``words``: what the sessions are. ``remedy``: what a refused client may do.
    """

    def __init__(
        self,
        limit: int,
        words: str = "conversations",
        remedy: str = "close one, or raise live_sessions in models.toml",
    ) -> None:
        self._limit, self._share = limit, max(1, limit // 2)
        self._words, self._remedy = words, remedy
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._taken.total()

    @contextlib.contextmanager
    def one(self, client: Client) -> Iterator[None]:
        """A place for the time of a session. Raises Busy."""
        address = client_of(client.address)
        if self._taken[address] >= self._share or len(self) >= self._limit:
            own = self._taken[address] >= self._share
            count, whose = (self._taken[address], " of yours") if own else (len(self), "")
            text = f"{count} {self._words}{whose} are open, which is the limit{' for one client' if own else ''}"
            raise Busy(f"{text}: {self._remedy}", retry_after=5)
        self._taken[address] += 1
        try:
            yield
        finally:
            self._taken[address] -= 1
            self._taken += Counter()  # forget addresses without a session
