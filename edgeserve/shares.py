"""Places that clients hold, and who gives one up for another."""

from __future__ import annotations

from collections import Counter

from edgeserve.clients import Groups


def half(limit: int) -> int:
    """Places that one client may have at most."""
    return max(1, limit // 2)


def has_share(limit: int, held: int, own: int) -> bool:
    """Whether a client has its share of ``limit`` places: half of them, or as many as are left free.

    ``held``: places that all hold together, ``own`` of them this client. So two clients never hold all places, unless
    there are only two.
    """
    return own >= min(half(limit), limit - held)


class Shares:
    """The number of places that each client holds. Not for several threads at once."""

    def __init__(self) -> None:
        self._held: Counter[tuple[str, ...]] = Counter()
        self._clients: Counter[Groups] = Counter()

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
