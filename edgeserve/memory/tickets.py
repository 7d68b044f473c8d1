"""The order of the requests that wait for memory. The lock of the accounts guards it."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

from edgeserve.dataclass import dataclass


@dataclass(slots=True, eq=False)
class Ticket:
    """The place of one request. ``way``: ids of the engines that make way for it. ``drains`` as in ``Claim``.

    ``spent``: savings that gave nothing. Others plan without those of its own engine, or each waits for the other.

    ``since`` in seconds and ``number`` are its place: the smaller pair is served first.
    """

    id: str
    since: float
    number: int
    way: frozenset[str] = frozenset()
    drains: bool = False
    spent: frozenset[tuple[str, str]] = frozenset()

    @property
    def place(self) -> tuple[float, int]:
        return self.since, self.number


class Tickets:
    """At most one ticket for each engine: its first request holds it, and those behind it wait at the gate."""

    def __init__(self) -> None:
        self._line: list[Ticket] = []
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._line)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(tuple(self._line))

    def take(self, name: str, arrived: float, turned: float) -> Ticket:
        """A ticket for the engine ``name``.

        ``arrived``: when its request came. ``turned``: when the engine had its last turn; infinitely long ago for none.

        - A request is served in the order of arrival.
        - An engine that has had its turn queues again from then on, however old its requests are.
        - An engine that makes way stands behind those for whom it does.
        """
        behind = (one.since for one in self._line if name in one.way)
        ticket = Ticket(name, max(arrived, turned, *behind), next(self._numbers))
        bisect.insort(self._line, ticket, key=lambda one: one.place)
        return ticket

    def drop(self, ticket: Ticket) -> None:
        """The request is served, or nobody waits for it any more."""
        self._line.remove(ticket)

    def ahead(self, ticket: Ticket | None) -> list[Ticket]:
        """Tickets that are served before this one; all of them for None."""
        return [one for one in self._line if ticket is None or one.place < ticket.place]

    def spent(self) -> frozenset[tuple[str, str]]:
        """Savings of engines that wait, which gave their own requests nothing."""
        return frozenset(saving for one in self._line for saving in one.spent if saving[0] == one.id)

    def ids(self) -> frozenset[str]:
        """Engines that wait."""
        return frozenset(one.id for one in self._line)
