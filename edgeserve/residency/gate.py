"""The gate of one engine: its leases, its bounded queue, its last use, and its reservations with the governor.

A request takes a place when it gets its lease. The host prepares it beside the answers under way. In its turn the gate
reserves memory for it, and the first request lets the host climb. The gate runs no engine code.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

from edgeserve.clients import NOBODY, Client, Groups
from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import Busy, EdgeserveError, ShuttingDown
from edgeserve.figures.figures import Figures
from edgeserve.memory.governor import Governor
from edgeserve.memory.resident import Moved, Refused, cached, taken
from edgeserve.residency.host import LONG_PATIENCE, Host
from edgeserve.residency.loads import Loads
from edgeserve.residency.turns import Turns
from edgeserve.residency.way_up import WayUp
from edgeserve.residency.wishes import Wishes
from edgeserve.residency.work import Work
from edgeserve.shares import Shares
from edgeserve.system.stamps import stamps


class Gate:
    """The door to one engine. Any thread; one lock guards the state.

    ``queue_limit`` requests may wait beside those that run; the gate refuses the next with Busy. Clients share these
    places and take turns (docs/decisions/0020-fair-queue.md). ``pinned``: neither the monitor nor another engine moves
    this one down. ``keep_alive``: idle seconds until it steps down where a request asks for none, infinite to stay;
    None: as the monitor's policy says. ``on_idle`` is called, on any thread, when a lease or its work has ended and a
    ``keep_alive`` holds. ``clock`` in seconds.
    """

    def __init__(
        self,
        host: Host,
        governor: Governor,
        *,
        queue_limit: int = 8,
        pinned: bool = False,
        keep_alive: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self.host = host
        self.pinned = pinned
        self.last_used = clock()
        self.keep_alive = keep_alive
        """Idle seconds that requests ask for, in place of the configured ones; infinite: to stay.

        The latest request says, unless another client still wants the engine for longer.
        """
        self._own_keep_alive = keep_alive
        self.queue_limit = queue_limit
        self._files = stamps(host.spec.files.values())
        self.clock = clock
        self._on_idle = on_idle
        self._governor = governor
        self._state = threading.Condition()
        self._way_up = WayUp(self, host, governor)
        self._turns = Turns(host, self._state, self._way_up.admit, self._went_idle, clock)
        self._leases = Shares()
        self._wishes = Wishes(clock)
        self._closing = False
        self._loads = Loads(host, self._way_up, self._turns, self._state, lambda: self._closing, self._used_now)

    @property
    def figures(self) -> Figures:
        return self._governor.figures

    # The resident that the governor knows

    @property
    def spec(self) -> ModelSpec:
        return self.host.spec

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def rung(self) -> Rung:
        return self.host.rung

    @property
    def leases(self) -> int:
        return len(self._leases)

    @property
    def rounds(self) -> int:
        return self.host.rounds

    @property
    def context_tokens(self) -> int | None:
        return self.host.context_tokens

    @property
    def slots(self) -> int:
        return self.host.slots

    def estimate(self) -> Footprint:
        return self.host.estimate()

    def footprint(self) -> Footprint:
        return self.host.footprint()

    def savings(self) -> Mapping[str, int]:
        return self.host.savings()

    def step_down(self, to: Rung, *, leased: bool = False) -> Moved | Refused:
        """Move the engine down to ``to`` on the calling thread. Refuses at once when the engine is in use.

        ``leased``: leases whose work has not begun do not count. The request that waits for memory may move its own
        engine: its thread holds the engine, and no answer is under way.
        """
        with self._unused(leased) as refused:
            if refused:
                return refused
            before, held = self.rung, taken(self)
            if before <= to:
                return Refused("already there")
            self.host.step_down(to)
            return Moved(before, self.rung, held, taken(self), cached(self))

    def shed(self, kind: str, amount: int) -> bool:
        """Let the engine do with ``amount`` bytes less, on the calling thread.

        Returns False at once when the engine is in use or has nothing to save.
        """
        return self._adjust(lambda: self.host.shed(kind, amount))

    def restore(self) -> bool:
        """Let the engine climb with all that is configured. False as for ``shed``."""
        return self._adjust(self.host.restore)

    def _adjust(self, change: Callable[[], bool]) -> bool:
        with self._unused() as refused:
            return not refused and change()

    @contextlib.contextmanager
    def _unused(self, leased: bool = False) -> Iterator[Refused | None]:
        """Hold the engine if nobody uses it. Never waits."""
        with contextlib.ExitStack() as stack:
            with self._state:
                if self._way_up.asking:
                    refused: Refused | None = None  # this thread holds the engine
                elif self._leases and not leased:
                    refused = Refused("leased")
                else:
                    refused = None if stack.enter_context(self.host.hold(0)) else Refused("at work")
            yield refused

    def outdated(self) -> bool:
        """Whether a file of the model has been replaced since the engine was made. Reads the disk."""
        return stamps(self._files) != self._files

    def tune(self, pinned: bool, keep_alive: float | None) -> None:
        """Take other terms from now on. A ``keep_alive`` that a request asked for stays."""
        with self._state:
            if self.keep_alive == self._own_keep_alive:
                self.keep_alive = keep_alive
            self.pinned, self._own_keep_alive = pinned, keep_alive
        self._on_idle()

    # Leases

    def acquire(self, keep_alive: float | None = None, client: Client = NOBODY) -> None:
        """Count a lease, and note how long the engine stays after it.

        When all places are taken, the client with the most gives its last waiting one up for a client with fewer.
        Raises Busy when none does, and ShuttingDown when the server drains.
        """
        displaced: Work | None = None
        with self._state:
            if self._closing:
                raise ShuttingDown("the server is shutting down and takes no new requests", retry_after=5)
            if len(self._leases) >= self.queue_limit + self.host.slots and not self._cut_slowest(client.groups):
                displaced = self._turns.withdraw_last(self._leases.greedier(client.groups))
                if displaced is None:
                    raise self._full()
                reason = self._full(self._leases.held(displaced.place.groups))
            self._leases.add(client.groups)
            wanted = self._own_keep_alive if keep_alive is None else keep_alive
            self.keep_alive = self._wishes.agreed(client.groups, wanted)
            self._wishes.note(client.groups, wanted)
        if displaced is not None:
            self._turns.end_withdrawn(displaced, reason)

    def wanted_by_others(self, client: Client) -> bool:
        """Whether a client other than this one wants the engine to stay now."""
        with self._state:
            return self._wishes.of_others(client.groups) > 0

    def _cut_slowest(self, groups: Groups) -> bool:
        """Cut an unread answer, unless its client holds fewer places than the one that asks."""
        held = self._leases.held
        return self._turns.cut_slowest(lambda work: held(work.place.groups) >= held(groups))

    def _full(self, yours: int = 0) -> Busy:
        """``yours``: the places of a client that gives one up for another client; 0 for a client that gets none."""
        slots = self.host.slots
        running = "one request runs" if slots == 1 else f"{slots} requests run"
        text = f"{self.id} is busy: {running} and all {self.queue_limit} places in its queue are taken"
        if yours:
            text += f", {yours} of both by you, and a client with fewer took this one"
        wait = min(60.0, max(1.0, round(self._turns.typical_seconds * len(self._leases) / slots)))
        return Busy(f"{text}; try again later or raise queue_limit in models.toml", retry_after=wait)

    def release(self, client: Client = NOBODY) -> None:
        """Give a lease of the client back and stamp the last use: the idle time starts now."""
        with self._state:
            self._leases.remove(client.groups)
            self._wishes.stamp(client.groups)
            self.last_used = self.clock()
            self._state.notify_all()
        self._went_idle()

    def drain(self, until: float) -> bool:
        """Take no new leases and wait for those out until the clock shows ``until``; True when none is left."""
        with self._state:
            self._closing = True
            seconds = min(max(0.0, until - self.clock()), threading.TIMEOUT_MAX)
            return self._state.wait_for(lambda: not self._leases, seconds)

    # Work of a lease

    @property
    def work(self) -> tuple[Work, ...]:
        """All work that has not ended."""
        return self._turns.work

    def submit(self, work: Work) -> None:
        """Queue work of a lease holder. Its ``emit`` gets the events and always one ``Done``.

        Raises Busy when the system gives no thread.
        """
        work.arrived = self.clock()
        self._turns.submit(work)

    def cancel(self, work: Work) -> None:
        """End work: at once before its turn, else within a token or segment. Any thread."""
        self._turns.cancel(work)
        self._governor.wake()

    def wake(self) -> None:
        """The reader of an answer has room again. Any thread."""
        self.host.wake()

    @property
    def unread(self) -> bool:
        """Whether the engine is at work only for readers that do not read."""
        return bool(self.host.unread(LONG_PATIENCE))

    def cut_unread(self) -> None:
        """Cut all answers, if each has waited for its reader for too long. Any thread."""
        self._turns.cut_unread()

    def abort(self, reason: EdgeserveError) -> None:
        """End all work, running and waiting, with ``reason``."""
        for work in self.work:
            self._turns.cancel(work, reason)
        self._governor.wake()

    def stop(self) -> None:
        """End all work and the host. Blocks until its threads have ended and its engine is closed."""
        self.abort(ShuttingDown("the server is shutting down"))
        self.host.stop()

    # Without a request

    def map(self) -> None:
        """As ``Loads.map``."""
        self._loads.map()

    def preload(self, cancel: Cancel | None = None) -> None:
        """As ``Loads.now``."""
        self._loads.now(cancel)

    def preload_in_turn(self) -> Future[None]:
        """As ``Loads.in_turn``."""
        return self._loads.in_turn()

    @property
    def warming(self) -> bool:
        """As ``Loads.warming``."""
        return self._loads.warming

    def warm_up(self) -> None:
        """As ``Loads.warm_up``."""
        self._loads.warm_up()

    def _used_now(self) -> None:
        with self._state:
            self.last_used = self.clock()
            if not self._leases:
                self.keep_alive = self._own_keep_alive

    def _went_idle(self) -> None:
        self._governor.wake()
        if self.keep_alive is not None:
            self._on_idle()
