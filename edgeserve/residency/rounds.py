"""Turns between clients: each takes one after the other, however much one of them asks for.

The client whose latest turn ended first is next; the arrival of its oldest item counts instead where that is later. So
a newcomer goes ahead of a client that has just had its turn. No flood of newcomers goes ahead of a client that waits
since before them.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from edgeserve.clients import Client, Groups, Idle
from edgeserve.dataclass import dataclass

_numbers = itertools.count()


@dataclass(slots=True, eq=False)
class Place:
    """The place of one request. A request with several answers has one place.

    ``begun``: answers of it that had their turn. ``running``: those of them under way. ``number``: in the order of
    their making.
    """

    client: Client = field(default_factory=Client)
    begun: int = 0
    running: int = 0
    number: int = field(default_factory=_numbers.__next__)
    groups: Groups = field(init=False)

    def __post_init__(self) -> None:
        self.groups = self.client.groups


class Placed(Protocol):
    """An item of ``Rounds``. Two items are never equal."""

    place: Place


T = TypeVar("T", bound=Placed)


def sacrifice(item: Placed) -> tuple[bool, int]:
    """Sorts items by their places: the greatest costs its client least."""
    return not item.place.begun, item.place.number


class Rounds(Generic[T]):
    """Items that wait for their turn. Within a client, all items of an earlier place come first.

    With ``by_count``, the client with the fewest items under way is next: such items share something that lasts, such
    as the slots of a batch. Not for several threads at once.
    """

    def __init__(self) -> None:
        self.by_count = False
        self._lines: dict[Groups, list[T]] = {}
        self._waiting: Counter[tuple[str, ...]] = Counter()
        self._taken: Counter[tuple[str, ...]] = Counter()
        self._since: dict[tuple[str, ...], int] = {}
        self._before: dict[T, list[int]] = {}
        self._ticks = itertools.count()

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[T]:
        """All items that wait, in no order between clients."""
        return iter([item for line in self._lines.values() for item in line])

    def __contains__(self, item: T) -> bool:
        return item in self._lines.get(item.place.groups, ())

    def add(self, item: T) -> None:
        """Let an item wait."""
        groups, tick = item.place.groups, next(self._ticks)
        for group in groups:
            if not self._waiting[group]:
                self._since[group] = tick
        self._waiting.update(groups)
        bisect.insort(self._lines.setdefault(groups, []), item, key=lambda one: one.place.number)

    def next(self, *, idle: Idle | None = None, able: Callable[[T], bool] = lambda item: True) -> T | None:
        """The item whose turn it is, of those that are ``able``. It stays.

        With ``idle``, among those of clients or keys with nothing under way.
        """
        firsts = dict[Groups, T]()
        for groups, line in self._lines.items():
            if (idle is None or self.is_idle(groups, idle)) and (first := next(filter(able, line), None)) is not None:
                firsts[groups] = first
        return firsts[min(firsts, key=self._rank)] if firsts else None

    def take(self, *, idle: Idle | None = None, able: Callable[[T], bool] = lambda item: True) -> T | None:
        """Take the item whose turn it is, as ``next``. ``end`` or ``put_back`` must follow."""
        if (item := self.next(idle=idle, able=able)) is not None:
            self.pick(item)
        return item

    def pick(self, item: T) -> None:
        """Take an item that waits. ``end`` or ``put_back`` must follow."""
        self._leave(item)
        self.begin(item)

    def is_idle(self, groups: Groups, idle: Idle) -> bool:
        """Whether the client, or everybody with its key, has nothing under way."""
        return not self._taken[groups[idle.value]]

    def taken(self, groups: Groups) -> int:
        """Items of the client that are under way."""
        return self._taken[groups[-1]]

    @property
    def under_way(self) -> Iterable[T]:
        """The items that were taken."""
        return self._before.keys()

    def begin(self, item: T) -> None:
        """Count an item that need not wait as taken. ``end`` must follow."""
        groups, tick = item.place.groups, next(self._ticks)
        self._before[item] = [self._since.get(group, tick) for group in groups]
        self._taken.update(groups)
        for group in groups:
            self._since[group] = tick

    def put_back(self, item: T) -> None:
        """Let an item that was taken wait again, in front of its client's other items and with its old turn."""
        groups = item.place.groups
        self._since.update(zip(groups, self._before.pop(item), strict=True))
        self._taken.subtract(groups)
        self._waiting.update(groups)
        self._lines.setdefault(groups, []).insert(0, item)

    def end(self, item: T) -> bool:
        """The turn of an item that was taken has ended. False for an item that was not."""
        if self._before.pop(item, None) is None:
            return False
        self._taken.subtract(item.place.groups)
        self._had_turn(item)
        return True

    def remove(self, item: T, *, turn: bool = False) -> bool:
        """Take an item out. False if it does not wait. ``turn``: this was its turn."""
        if item not in self:
            return False
        self._leave(item)
        if turn:
            self._had_turn(item)
        self._forget(item.place.groups)
        return True

    def last(self, groups: Groups) -> T | None:
        """The client's last item to give up: of a place that has not begun, else of one with nothing under way."""
        found = (item for item in self._lines.get(groups, []) if not item.place.running)
        return max(found, key=sacrifice, default=None)

    def claimed(self, item: T, waiting: Iterable[T]) -> bool:
        """Whether a waiting item is of a client with no more under way than that of ``item``, or of such a key.

        The widest groups in which the two differ are compared.
        """
        own, same = item.place.groups, (item.place.groups[0],) * 2
        for other in {one.place.groups for one in waiting}:
            ours, theirs = next((two for two in zip(own, other, strict=True) if two[0] != two[1]), same)
            if self._taken[ours] >= self._taken[theirs]:
                return True
        return False

    def _rank(self, groups: Groups) -> list[tuple[int, int]]:
        return [(self._taken[group] if self.by_count else 0, self._since[group]) for group in groups]

    def _leave(self, item: T) -> None:
        line = self._lines[item.place.groups]
        line.remove(item)
        if not line:
            del self._lines[item.place.groups]
        self._waiting.subtract(item.place.groups)

    def _had_turn(self, item: T) -> None:
        tick = next(self._ticks)
        for group in item.place.groups:
            self._since[group] = tick
        self._forget(item.place.groups)

    def _forget(self, groups: Groups) -> None:
        """Forget groups that neither wait nor have anything under way."""
        for group in groups:
            if not self._waiting[group] and not self._taken[group]:
                del self._waiting[group], self._taken[group]
                self._since.pop(group, None)
