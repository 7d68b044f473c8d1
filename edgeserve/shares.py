"""Places that clients hold, and who gives one up for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from edgeserve.clients import Groups


def half(limit: int) -> int:
    """Places that one client may have at most."""
    return max(1, limit // 2)


class Shares:
    """The number of places that each client holds, at first those of ``held``. Not for several threads at once."""

    def __init__(self, held: Iterable[Groups] = ()) -> None:
        self._held: Counter[tuple[str, ...]] = Counter()
        self._clients: Counter[Groups] = Counter()
        for groups in held:
            self.add(groups)

    def __len__(self) -> int:
        """Places that all clients hold together."""
        return self._clients.total()

    def add(self, groups: Groups) -> None:
        self._clients[groups] += 1
        self._held.update(groups)

    def remove(self, groups: Groups) -> None:
        """Undo one ``add``."""
        self._clients -= Counter([groups])  # which drops what has come down to 0
        self._held -= Counter(groups)

    def held(self, groups: Groups) -> int:
        """Places that the client holds."""
        return self._clients[groups]

    def held_by_key(self, groups: Groups) -> int:
        """Places that all clients with the same key hold, without keys those of the same site."""
        return self._held[groups[0]]

    def greedier(self, groups: Groups) -> list[Groups]:
        """Clients that hold more places than ``groups`` would with one more; the greediest first.

        The widest groups in which two clients differ are compared. A client that gave one place up still holds as many
        as the other. So two clients never take places from each other in turns.
        """
        found = [other for other in self._clients if self._gives(other, groups)]
        return sorted(found, key=lambda other: [-self._held[group] for group in other])

    def _gives(self, other: Groups, groups: Groups) -> bool:
        for theirs, own in zip(other, groups, strict=True):
            if theirs != own:
                return self._held[theirs] > self._held[own] + 1
        return False


def has_share(limit: int, shares: Shares, groups: Groups) -> bool:
    """Whether a client has its share of ``limit`` places, of which ``shares`` are held.

    1. It holds half of them, or as many as are left free.
    2. The last quarter is left, and it holds one: these are for clients that have none.
    3. The last eighth is left, at least the last place, and its key holds one. So no key has all places.
    """
    free, own = limit - len(shares), shares.held(groups)
    if own >= min(half(limit), free) or (own and free <= limit // 4):
        return True
    return free <= max(1, limit // 8) and shares.held_by_key(groups) > 0
