"""Events on their way from an engine's thread to the reader of an answer, bounded in bytes.

An engine makes speech many times faster than a reader plays it. An answer whose mailbox is full pauses its own work,
and continues when half of the mailbox has been read. ``Deliveries`` counts the bytes of all answers together, so that
many slow readers get smaller mailboxes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable

from edgeserve.clients import NOBODY, Client, Groups
from edgeserve.errors import Busy
from edgeserve.memory.traffic import Own, own
from edgeserve.messages import Event
from edgeserve.residency import wakes
from edgeserve.residency.weight import weigh
from edgeserve.residency.work import Done
from edgeserve.units import KB, MB

LARGEST = 512 * KB
"""Bytes that one mailbox holds at most, plus one event: 10 s of speech, or some 1,500 tokens.

Who plays speech of 16 kHz as it comes reads half of it in 8 s, and is not taken for one that reads nothing.
"""
OVERFULL = 2 * MB
"""Bytes up to which an answer goes on without room where others wait for its memory, to reach its next rest."""
SMALLEST = 64 * KB
"""Bytes that each mailbox may hold however many others are full."""
SHARE = 8
"""One mailbox takes at most one such part of the bytes that all deliveries leave free."""
OWN = 256 * KB
"""Bytes of whole answers that each client may have however much others have: some 1,000 tokens."""
WHOLE, WHOLE_MEMORY = 128 * MB, 8
"""Bytes of all whole answers at most, and bytes of the machine's memory for each of them."""


class Deliveries:
    """Bytes of answers that the server has made and not yet sent. Any thread.

    ``limit``: bytes of all answers that are kept until they are whole. One client may have half of them, all with its
    key three quarters, and each client always ``OWN``. Mailboxes share half as much on top, so that a client that does
    not read its mailbox takes no room from whole answers.
    """

    def __init__(self, limit: int = WHOLE) -> None:
        self.limit = limit
        self._held = self._whole = self._rests = 0
        self._kept: Counter[tuple[str, ...]] = Counter()
        self._lock = threading.Lock()

    def fit(self, memory: int) -> None:
        """Take the limit of a machine of so many bytes. Unread answers alone could fill one of 250 MB."""
        self.limit = min(WHOLE, memory // WHOLE_MEMORY)

    @property
    def held(self) -> int:
        with self._lock:
            return self._held + self._whole + self._rests

    def share(self) -> int:
        """Bytes that one mailbox may hold at this moment."""
        return max(SMALLEST, min(LARGEST, (self.limit // 2 - self._held) // SHARE))

    def scarce(self) -> bool:
        """Whether mailboxes hold the better part of what they share already."""
        return self._held > self.limit // 4

    def add(self, size: int) -> None:
        """Count bytes of a mailbox, or give them back with a negative ``size``."""
        with self._lock:
            self._held += size

    def rest(self, former: int, size: int, mine: Own) -> bool:
        """Count the bytes that an answer needs to go on behind a rest, in place of ``former`` ones.

        False, and nothing changes, where all such answers together would need more than ``limit``. Few bytes always
        have room.
        """
        with self._lock:
            if size > max(former, SMALLEST) and self._rests - former + size > self.limit:
                return False
            self._rests += size - former
            mine.rests += size - former
            return True

    def keep(self, size: int, groups: Groups) -> None:
        """Count bytes of an answer that is kept until it is whole. Raises Busy beyond a limit, and counts nothing."""
        with self._lock:
            key, own = self._kept[groups[0]] + size, self._kept[groups[-1]] + size
            few = self._whole + size > self.limit or key > self.limit * 3 // 4
            if own > self.limit // 2 or (few and own > OWN):
                raise self._full(self._whole, key - size, own - size)
            self._count(size, groups)

    def _full(self, *held: int) -> Busy:
        together, key, own = (size // MB for size in held)
        most = ", ".join(str(self.limit * quarters // 4 // MB) for quarters in (4, 3, 2))
        text = f"{together} MB of answers wait for their readers, {key} MB of them for your key or site and {own} MB"
        return Busy(f"{text} for you; the limits are {most} MB; try again later, or ask for a stream", retry_after=5)

    def give_back(self, size: int, groups: Groups) -> None:
        """Undo ``keep``."""
        with self._lock:
            self._count(-size, groups)

    def _count(self, size: int, groups: Groups) -> None:
        self._whole += size
        for group in groups:
            self._kept[group] += size
            if not self._kept[group]:
                del self._kept[group]


class Mailbox:
    """Items of one reader, in order. ``wake`` is called on the reader's thread when a full mailbox has room again."""

    def __init__(self, deliveries: Deliveries, wake: Callable[[], None] = lambda: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliveries = deliveries
        self._wake = wake
        self._lock = threading.Lock()
        self._items: deque[tuple[int, Event | Done, int]] = deque()
        self._arrived = asyncio.Event()
        self._held = self._rests = 0
        self._own = own.get()
        self._full = self._overfull = self._closed = self._asleep = False

    def put(self, number: int, item: Event | Done) -> None:
        """Add an item. A closed mailbox drops it. Any thread; never waits."""
        size = weigh(item)
        with self._lock:
            if self._closed:
                return
            self._items.append((number, item, size))
            self._held += size
            self._deliveries.add(size)
            asleep, self._asleep = self._asleep, False
        if asleep:  # a reader behind its engine finds the item by itself
            wakes.wake(self._loop, self._arrived.set)

    def rest(self, size: int) -> bool:
        """Count bytes that the answer needs to go on behind a rest, until the next one. False: it must not rest.

        Any thread. ``close`` gives the bytes back.
        """
        with self._lock:
            if self._closed or not self._deliveries.rest(self._rests, size, self._own):
                return False
            self._rests = size
            return True

    def room(self) -> bool:
        """True when the answer may continue. Any thread.

        Once False, it stays False until half of the mailbox has been read; then ``wake`` follows.
        """
        share = self._deliveries.share()
        with self._lock:
            self._full = not self._closed and (self._full or self._held >= share)
            return not self._full

    def spare(self) -> bool:
        """True when the answer may go on to its next rest though its reader has no room. Any thread.

        An overfull mailbox takes more once as much is read as makes room in a full one. Who takes an event now and then
        would else hold the engine up.
        """
        with self._lock:
            self._overfull = self._held >= OVERFULL - (LARGEST // 2 if self._overfull else 0)
            return not (self._closed or self._overfull or self._deliveries.scarce())

    async def get(self) -> tuple[int, Event | Done]:
        """The next item, with the number of its request. One reader."""
        while (taken := self._take()) is None:
            self._arrived.clear()
            with self._lock:
                asleep = self._asleep = not self._items
            if asleep:
                await self._arrived.wait()
        number, item, awake = taken
        if awake:
            self._wake()
        return number, item

    def _take(self) -> tuple[int, Event | Done, bool] | None:
        """The next item; and whether a full mailbox has room again."""
        with self._lock:
            if not self._items:
                return None
            number, item, size = self._items.popleft()
            return number, item, self._give_back(size)

    def drop(self) -> None:
        """Drop all unread items: others need their memory. Any thread."""
        with self._lock:
            self._items.clear()
            self._give_back(self._held)

    def close(self) -> None:
        """Drop all unread items, and every later one. Idempotent; any thread."""
        with self._lock:
            self._closed = True
            self._items.clear()
            self._give_back(self._held)
            self._deliveries.rest(self._rests, 0, self._own)
            self._rests = 0

    def _give_back(self, size: int) -> bool:
        """Count an item as read. True when a full mailbox has room again."""
        self._held -= size
        self._deliveries.add(-size)
        awake = self._full and self._held <= self._deliveries.share() // 2
        self._full = self._full and not awake
        return awake


class Kept:
    """Bytes of an answer that is kept until it is whole and sent to its client."""

    def __init__(self, deliveries: Deliveries, client: Client = NOBODY) -> None:
        self._deliveries, self._groups = deliveries, client.groups
        self._size = 0

    def add(self, size: int) -> None:
        """Count more bytes. Raises Busy when all answers together, or those of the client, would exceed a limit."""
        self._deliveries.keep(size, self._groups)
        self._size += size

    def release(self) -> None:
        """Give all bytes back. Idempotent."""
        self._deliveries.give_back(self._size, self._groups)
        self._size = 0
