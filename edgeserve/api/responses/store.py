"""Past responses, kept in memory for ``previous_response_id``: bounded, and apart by client."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import field

from edgeserve.dataclass import dataclass
from edgeserve.units import MB

MOST, MOST_BYTES = 64, 8 * MB
"""Responses of one client, and their bytes together."""
ALL, ALL_BYTES = 256, 32 * MB
"""Responses of all clients, and their bytes together."""
MOST_ITEMS = 4096
"""Items of one response. To keep it and to forget it takes a microsecond for each, on the event loop."""
FLOOR, FLOOR_BYTES = 8, MB
"""Responses of a group, and their bytes, that make no room for other groups before they are stale."""
STALE_SECONDS = 3600.0
"""A response that was not used for so long may give its place to another client's."""
RECORD_BYTES = 1000
"""Bytes of a response in memory beside its texts, about."""
ITEM_BYTES = 200
"""Bytes of an item in memory beside its text, about."""
PLACE_BYTES = 8
"""Bytes of an item's place in a response."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredItem:
    """An item of a conversation as JSON. Responses of one conversation share their items."""

    id: str
    data: bytes = field(repr=False)

    @property
    def size(self) -> int:
        return ITEM_BYTES + len(self.id) + len(self.data)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was answered, and the items that it was made of.

    ``body`` is the response as JSON. ``items`` holds all items of the conversation; the first ``inputs`` of them came
    before the response's own output.
    """

    id: str
    body: bytes = field(repr=False)
    items: tuple[StoredItem, ...] = field(repr=False)
    inputs: int

    @property
    def size(self) -> int:
        """Bytes beside the texts of the items."""
        return RECORD_BYTES + len(self.body) + PLACE_BYTES * len(self.items)


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of responses: nobody else finds them.

    ``group``: those who share one place in the store, for instance the addresses of one network with one key.
    """

    name: tuple[str, ...]
    group: tuple[str, ...]


class _Group:
    """The responses of one group, the least recently used first, and the bytes that they hold."""

    def __init__(self) -> None:
        self.responses: OrderedDict[tuple[Owner, str], StoredResponse] = OrderedDict()
        self.used: dict[tuple[Owner, str], float] = {}
        self.bytes = 0
        self._uses: Counter[StoredItem] = Counter()

    def add(self, place: tuple[Owner, str], response: StoredResponse, now: float) -> None:
        self.responses[place], self.used[place] = response, now
        self.bytes += response.size
        for item in response.items:
            self.bytes += 0 if self._uses[item] else item.size
            self._uses[item] += 1

    def remove(self, place: tuple[Owner, str]) -> None:
        response = self.responses.pop(place)
        del self.used[place]
        self.bytes -= response.size
        for item in response.items:
            self._uses[item] -= 1
            if not self._uses[item]:
                del self._uses[item]
                self.bytes -= item.size

    def touch(self, place: tuple[Owner, str], now: float) -> None:
        self.responses.move_to_end(place)
        self.used[place] = now

    def oldest(self) -> tuple[Owner, str]:
        return next(iter(self.responses))


class ResponseStore:
    """Past responses. Any thread. ``clock`` counts seconds.

    A group has at most ``most`` responses of ``most_bytes`` together; the least recently used ones make room for new
    ones. Where all groups together are full, responses of others make room after ``STALE_SECONDS`` without use. The
    group with the most gives up responses before that, down to ``FLOOR`` of them.
    """

    def __init__(
        self,
        *,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
        most_of_all: int = ALL,
        bytes_of_all: int = ALL_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._most_of_all, self._bytes_of_all = most_of_all, bytes_of_all
        self._clock = clock
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._lock = threading.Lock()
        self.bytes = 0
        """Bytes of all responses. Any thread reads them without waiting for the lock."""

    def __len__(self) -> int:
        with self._lock:
            return sum(len(one.responses) for one in self._groups.values())

    def fits(self, items: Sequence[StoredItem], body: int = 0) -> bool:
        """Whether a response of these items and so many further bytes is small enough to be kept at all."""
        if len(items) > MOST_ITEMS:
            return False
        sizes = RECORD_BYTES + body + sum(PLACE_BYTES + one.size for one in items)
        return sizes <= min(self._most_bytes, self._bytes_of_all)

    def add(self, response: StoredResponse, owner: Owner) -> bool:
        """Keep a response. False where it is too large, or others fill the store."""
        if not self.fits(response.items, len(response.body)):
            return False
        place = (owner, response.id)
        with self._lock:
            group = self._groups.setdefault(owner.group, _Group())
            group.add(place, response, self._clock())
            while len(group.responses) > self._most or group.bytes > self._most_bytes:
                group.remove(group.oldest())
            while self._full():
                victim = self._stale(owner.group) or self._greedier(group) or group
                victim.remove(victim.oldest())
            self._groups = {name: one for name, one in self._groups.items() if one.responses}
            self.bytes = self._held()
            return place in group.responses

    def find(self, response: str, owner: Owner) -> StoredResponse | None:
        """The owner's response of this id; None for any other."""
        place = (owner, response)
        with self._lock:
            group = self._groups.get(owner.group)
            if group is None or place not in group.responses:
                return None
            group.touch(place, self._clock())
            return group.responses[place]

    def items(self, owner: Owner) -> dict[str, StoredItem]:
        """All items of the owner's responses by their ids."""
        with self._lock:
            group = self._groups.get(owner.group)
            kept = [one for (whose, _), one in group.responses.items() if whose == owner] if group else []
        return {item.id: item for one in kept for item in one.items}

    def remove(self, response: str, owner: Owner) -> bool:
        """Forget the owner's response of this id. False where there is none."""
        place = (owner, response)
        with self._lock:
            group = self._groups.get(owner.group)
            if group is None or place not in group.responses:
                return False
            group.remove(place)
            if not group.responses:
                del self._groups[owner.group]
            self.bytes = self._held()
            return True

    def _held(self) -> int:
        return sum(one.bytes for one in self._groups.values())

    def _full(self) -> bool:
        count = sum(len(one.responses) for one in self._groups.values())
        return count > self._most_of_all or self._held() > self._bytes_of_all

    def _stale(self, group: tuple[str, ...]) -> _Group | None:
        """Another group whose oldest response was not used for long, the longest of all."""
        now = self._clock()
        others = [one for name, one in self._groups.items() if name != group and one.responses]
        idle = [(now - one.used[one.oldest()], at) for at, one in enumerate(others)]
        longest, at = max(idle, default=(0.0, 0))
        return others[at] if longest >= STALE_SECONDS else None

    def _greedier(self, own: _Group) -> _Group | None:
        """The group that holds most of what is short, if it is more than the floor and than ``own`` holds."""
        if sum(len(one.responses) for one in self._groups.values()) > self._most_of_all:
            floor, sizes = FLOOR, [(len(one.responses), one) for one in self._groups.values()]
        else:
            floor, sizes = FLOOR_BYTES, [(one.bytes, one) for one in self._groups.values()]
        most, found = max(sizes, key=lambda pair: pair[0])
        return found if most > max(floor, next(size for size, one in sizes if one is own)) else None
