"""Limits on the memory of all request bodies together, and on the time that each may take to arrive.

When memory is short, the server refuses the slowest body that still arrives, so that a stalled client shuts out nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable

from starlette.types import Message, Receive

from edgeserve.clients import NOBODY, Client, Groups
from edgeserve.errors import Busy, RequestTimeout, TooLarge
from edgeserve.memory.traffic import Traffic
from edgeserve.units import KB, MB

LARGEST_AT_ONCE = 4
"""Bodies of the largest size that may be in memory together."""
SHARE = LARGEST_AT_ONCE // 2
"""Bodies of the largest size that one client may hold. A complete body stays as long as its request runs."""
KEY_SHARE = 3
"""Bodies of the largest size that all clients with one key may hold."""
SMALL = 64 << 10
SMALL_SHARE = 1 / 512
"""Bytes of each body that count towards no common limit: ``SMALL``, or this share of the largest body if that is less.

So the server never refuses a small request for lack of memory. The number of connections bounds them all.
"""
FREE_VALUES = MB
"""Bytes of the values of each body that count towards no common limit: 5,000 values."""
SLOWEST = 1024
"""Bytes a second at which a body must arrive on average, beyond the first ``patience`` seconds."""
PACE = 64 << 10
"""Bytes a second below which a body makes way for a request that waits for its memory: 10 MB would take 160 s."""
CREDIT, LITTLE = 6.0, 1.0
"""Seconds of ``PACE`` that a body is ahead at most, and below which it is slow: any connection pauses for a moment."""


class Body:
    """The body of one request, and the bytes that the server fetches for the request."""

    def __init__(self, bodies: Bodies, groups: Groups) -> None:
        self.groups = groups
        self.size = self.arrived = self.parsed = 0
        self.whole = self.cut = False
        self.on_cut: Callable[[], None] = lambda: None
        self._bodies, self._why = bodies, bodies.short
        self._credit, self._credited = CREDIT, 0.0
        self._waited = 0.0
        self._waits_since: float | None = None
        self._timer: asyncio.Timeout | None = None

    @property
    def shared(self) -> int:
        """Bytes that count towards the common limit."""
        return 0 if self.cut else max(0, self.size - self._bodies.small) + self.parsed

    def waited(self) -> float:
        """Seconds for which the server waited for the client."""
        now = self._bodies.clock()
        return self._waited + (0.0 if self._waits_since is None else now - self._waits_since)

    def rate(self) -> float:
        """Bytes a second that arrived, over the time that the server waited."""
        return self.arrived / max(self.waited(), 0.001)

    @property
    def slow(self) -> bool:
        """Whether the body has come below ``PACE`` for so long that little credit is left."""
        return self._left() < LITTLE

    def _left(self) -> float:
        """Seconds of credit: a leaky bucket, so that what came at once counts for ``CREDIT`` only."""
        return max(0.0, self._credit - (self.waited() - self._credited))

    def _pace(self, size: int) -> None:
        """Note bytes that have arrived, for their pace."""
        self._credit, self._credited = min(CREDIT, self._left() + size / PACE), self.waited()

    def hold(self, size: int) -> None:
        """Count bytes that are kept for the request. Raises TooLarge and Busy."""
        self._bodies.add(self, size)

    def keep(self, size: int) -> None:
        """Count this many bytes from now on, in place of those so far. Raises TooLarge and Busy where they are more."""
        if size > self.size:
            self.hold(size - self.size)
        else:
            self._bodies.free(self, self.size - size)

    def parse(self, size: int) -> None:
        """Count bytes that the body's values take beside its text, as far as a body may be large. Raises Busy."""
        self._bodies.parse(self, max(0, min(size, self._bodies.limit - self.size) - FREE_VALUES))

    async def next(self, receive: Receive) -> Message:
        """The next message, counted. Raises TooLarge, Busy and RequestTimeout."""
        if self.whole:
            return await receive()  # nothing but the client's leaving can come
        message = await self._in_time(receive)
        if self.cut:  # just as this came; it counts towards no limit any more
            raise self._why()
        self.whole = message["type"] != "http.request" or not message.get("more_body", False)
        size = len(message.get("body", b""))
        self.arrived += size
        self._pace(size)
        self.hold(size)
        return message

    async def _in_time(self, receive: Receive) -> Message:
        if self.cut:
            raise self._why()
        patience = self._bodies.patience
        left = min(patience, patience + self.arrived / SLOWEST - self._waited)
        self._waits_since = self._bodies.clock()
        try:
            async with asyncio.timeout(left) as self._timer:
                return await receive()
        except TimeoutError:
            if self.cut:
                raise self._why() from None
            text = f"the request's body did not come in time: {self.arrived} bytes in {self.waited():.0f} s, and no end"
            raise RequestTimeout(
                f"{text}; send at least {SLOWEST} bytes a second without a pause of {patience:g} s, or raise "
                "body_timeout in models.toml"
            ) from None
        finally:
            self._waited, self._waits_since, self._timer = self.waited(), None, None

    def refuse(self, why: Callable[[], Busy] | None = None) -> None:
        """End the request with ``why`` as soon as it reads the body, or now if it waits for the body."""
        self.cut, self._why = True, why or self._why
        self.on_cut()
        if self._timer is not None and not self._timer.expired():  # else it ends anyway
            self._timer.reschedule(asyncio.get_running_loop().time())


class Bodies:
    """All open bodies. One event loop uses the object.

    A body has at most ``limit`` bytes; its client may send nothing for ``patience`` seconds. ``traffic`` counts what
    all of them hold.
    """

    def __init__(
        self,
        limit: int,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
        traffic: Traffic | None = None,
    ) -> None:
        self.limit, self.patience, self.clock = limit, patience, clock
        self._traffic = traffic or Traffic()
        self.small = min(SMALL, int(limit * SMALL_SHARE))
        self._open: dict[Body, None] = {}  # in order: of equal rates the oldest body is the slowest

    def open(self, client: Client = NOBODY) -> Body:
        """A new body of a client."""
        body = Body(self, client.groups)
        self._open[body] = None
        return body

    def close(self, body: Body) -> None:
        if body in self._open:
            del self._open[body]
            self._traffic.go(body.size + body.parsed)
            if body.cut:  # a request may wait for that
                self._traffic.eased()

    def held(self, body: Body) -> int:
        """Bytes of a body and of its values that are in memory: none once its request has ended."""
        return body.size + body.parsed if body in self._open else 0

    def free(self, body: Body, size: int) -> None:
        """Count bytes of a body no more."""
        body.size -= size
        self._traffic.go(size if body in self._open else 0)

    def add(self, body: Body, size: int) -> None:
        """Count bytes of a body. Raises TooLarge for this body alone, and Busy as ``make_room`` does."""
        body.size += size
        self._traffic.come(size if body in self._open else 0)
        if body.size > self.limit:
            raise self.too_large(body.size)
        self.make_room(body)

    def parse(self, body: Body, size: int) -> None:
        """Count the bytes of a body's values. Raises Busy as ``make_room`` does."""
        if body in self._open:
            self._traffic.come(size)
            self._traffic.go(body.parsed)
        body.parsed = size
        self.make_room(body)

    def make_room(self, body: Body) -> None:
        """Refuse others for a body that has grown. Raises Busy where no body that still arrives is slower."""
        if not body.shared:
            return
        while (victim := self._victim(body)) is not None:
            if victim is body:
                raise self.short()
            victim.refuse()

    def _victim(self, asking: Body) -> Body | None:
        """The body to refuse; None where there is room.

        1. Where the asking client holds more than its share, the slowest body of that client.
        2. Where its key holds more than that may, the slowest body of the client of the key that holds most.
        3. Where all together hold too much, the slowest body of the client that holds most, of the key that does.

        Only bodies that still arrive can be refused, and only those that count.
        """
        key, client = asking.groups
        sizes = [(one.groups, size) for one in self._open if (size := one.shared)]
        whose: tuple[str, ...] | None = None
        if sum(size for groups, size in sizes if groups[1] == client) > SHARE * self.limit:
            whose = client
        elif sum(size for groups, size in sizes if groups[0] == key) > KEY_SHARE * self.limit:
            whose = key
        elif sum(size for _, size in sizes) <= LARGEST_AT_ONCE * self.limit:
            return None
        able = (one for one in self._open if one is asking or (one.shared and not one.whole))
        return self._slowest([one for one in able if whose is None or whose in one.groups])

    def _slowest(self, able: Iterable[Body]) -> Body:
        """The slowest of some bodies of the client that holds most, of the key that does."""
        held: Counter[tuple[str, ...]] = Counter()
        for one in self._open:
            held.update(dict.fromkeys(one.groups, one.shared))
        return min(able, key=lambda one: (*(-held[group] for group in one.groups), one.rate()))

    def ease(self, missing: int) -> None:
        """Refuse the slowest body that still arrives, and below ``PACE``: a request waits for bytes that pass alone.

        Not where all such bodies hold less than half of the bytes that are ``missing``: then others keep it out.
        """
        able = [one for one in self._open if one.shared and not one.whole and one.slow]
        if able and 2 * sum(map(self.held, able)) >= missing:
            self._slowest(able).refuse(_too_slow)

    def short(self) -> Busy:
        most, key, own = (count * self.limit / MB for count in (LARGEST_AT_ONCE, KEY_SHARE, SHARE))
        text = f"the requests being served hold {most:.0f} MB of bodies, {key:.0f} MB of your key or site, or"
        text += f" {own:.0f} MB of yours, which is the limit"
        return Busy(f"{text}, and this is the slowest of them; try again when some are done", retry_after=2)

    def too_large(self, size: int) -> TooLarge:
        more = "at least " if size <= self.limit + MB else ""
        return TooLarge(
            f"the body (with what is fetched for it) has {more}{size / MB:.1f} MB; the limit is "
            f"{self.limit // MB} MB: send less, or raise max_body_mb in models.toml"
        )


def _too_slow() -> Busy:
    text = f"a request has waited for the memory of bodies, and this one came below {PACE // KB} KB/s"
    return Busy(f"{text}; send it faster, or try again later", retry_after=15)
