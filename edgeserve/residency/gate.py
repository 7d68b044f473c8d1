"""The gate of one engine: its leases, its bounded queue, and its reservations with the governor.

A request takes a place when it gets its lease. The host prepares it beside the answers under way. In its turn the gate
reserves memory for it, and the first request lets the host climb. The gate runs no engine code.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

from edgeserve.clients import NOBODY, Client
from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.engine_abilities import RemotePart
from edgeserve.errors import EdgeserveError, ShuttingDown
from edgeserve.figures.figures import Figures
from edgeserve.memory.governor import Governor
from edgeserve.memory.resident import Moved, Refused, cached, taken
from edgeserve.messages import DetectRequest, SpeechChances
from edgeserve.residency.host import LONG_PATIENCE, Host
from edgeserve.residency.leases import Leases
from edgeserve.residency.loads import Loads
from edgeserve.residency.turns import OTHERS, Turns
from edgeserve.residency.way_up import WayUp
from edgeserve.residency.work import Work
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
        self._files = stamps(host.spec.files.values())
        self.clock = clock
        self._on_idle = on_idle
        self._governor = governor
        self._state = threading.Condition()
        self._way_up = WayUp(self, host, governor)
        self._turns = Turns(host, self._state, self._way_up.admit, self._went_idle, clock)
        self._leases = Leases(host, self._turns, self._state, queue_limit, keep_alive, clock)
        self._loads = Loads(
            host, self._way_up, self._turns, self._state, lambda: self._leases.closed, self._leases.used_now
        )

    @property
    def figures(self) -> Figures:
        return self._governor.figures

    @property
    def queue_limit(self) -> int:
        return self._leases.queue_limit

    @queue_limit.setter
    def queue_limit(self, most: int) -> None:
        self._leases.queue_limit = most

    @property
    def keep_alive(self) -> float | None:
        """As in ``Leases``."""
        return self._leases.keep_alive

    @property
    def last_used(self) -> float:
        """As in ``Leases``."""
        return self._leases.last_used

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
    def in_process(self) -> bool:
        return self.host.report["isolation"] == "thread"

    @property
    def pid(self) -> int | None:
        return self.host.pid

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
    def remote_parts(self) -> tuple[RemotePart, ...]:
        return self.host.remote_parts

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

    def keep(self, most: int) -> None:
        """As ``Host.keep``."""
        self.host.keep(most)

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
                elif len(self._leases) and not leased:
                    refused = Refused("leased")
                else:
                    refused = None if stack.enter_context(self.host.hold(0)) else Refused("at work")
            yield refused

    def outdated(self) -> bool:
        """Whether a file of the model has been replaced since the engine was made. Reads the disk."""
        return stamps(self._files) != self._files

    def tune(self, pinned: bool, keep_alive: float | None) -> None:
        """Take other terms from now on. A ``keep_alive`` that a request asked for stays."""
        self.pinned = pinned
        self._leases.tune(keep_alive)
        self._on_idle()

    # Leases

    def acquire(self, keep_alive: float | None = None, client: Client = NOBODY) -> None:
        """As ``Leases.add``."""
        self._leases.add(keep_alive, client)

    def wanted_by_others(self, client: Client) -> bool:
        """As ``Leases.wanted_by_others``."""
        return self._leases.wanted_by_others(client)

    def release(self, client: Client = NOBODY) -> None:
        """Give a lease of the client back and stamp the last use: the idle time starts now."""
        self._leases.remove(client)
        self._went_idle()

    def drain(self, until: float) -> bool:
        """As ``Leases.drain``."""
        return self._leases.drain(until)

    def detect(self, request: DetectRequest) -> SpeechChances:
        """As ``Host.detect``, without a lease: it takes no place in the queue, and stamps the last use."""
        self._leases.touch()
        return self.host.detect(request)

    # Work of a lease

    @property
    def work(self) -> tuple[Work, ...]:
        """All work that has not ended."""
        return self._turns.work

    def submit(self, work: Work) -> None:
        """Queue work of a lease holder. Its ``emit`` gets the events and always one ``Done``: Busy without a thread."""
        work.arrived = self.clock()
        self._turns.submit(work)

    def cancel(self, work: Work) -> None:
        """End work: at once before its turn, else within a token or segment. Any thread."""
        self._turns.cancel(work)
        self._governor.wake()

    def wake(self) -> None:
        """As ``Turns.wake``."""
        self._turns.wake()

    @property
    def unread(self) -> bool:
        """Whether the engine is at work only for readers that do not read."""
        return bool(self.host.all_unread(LONG_PATIENCE))

    def cut_all_unread(self) -> None:
        """Cut all answers, if each has waited for its reader for too long. Any thread."""
        self._turns.cut_all_unread()

    def cut_unread(self, why: str = OTHERS) -> None:
        """Cut each answer that has waited for its reader for too long while ``why``. Any thread."""
        self._turns.cut_unread(why)

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

    def _went_idle(self) -> None:
        self._governor.wake()
        if self.keep_alive is not None:
            self._on_idle()
