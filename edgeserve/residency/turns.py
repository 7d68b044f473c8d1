"""The order in which the requests of one gate reach its host, and the end of each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable

from edgeserve.clients import Groups, Idle
from edgeserve.errors import Busy, Cancelled, EdgeserveError, SlowReader
from edgeserve.residency.failure import explain
from edgeserve.residency.host import LONG_PATIENCE, PATIENCE, Host
from edgeserve.residency.queue import Queue
from edgeserve.residency.work import Admitted, Done, Work

log = logging.getLogger("edgeserve.gate")

OTHERS, PLACE = "others needed its memory", "other requests waited for its place"
"""Why answers that nobody reads are cut."""
REST_PATIENCE = 4 * LONG_PATIENCE
"""Seconds for which an answer at rest waits for its reader: speech of 16 kHz that fills a mailbox, as it is played."""
Reserve = Callable[[Admitted, bool], bool]
"""Reserves memory for work and makes the engine hot; False when the work must wait for memory. The flag is ``beside``
of ``Scheduler.admit``."""


class Turns:
    """The ``Scheduler`` of one host. ``state`` is the gate's lock; ``went_idle`` as in ``Scheduler``."""

    def __init__(
        self,
        host: Host,
        state: threading.Condition,
        reserve: Reserve,
        went_idle: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.typical_seconds = 1.0
        """Seconds that an answer takes, averaged over the latest ones."""
        self.went_idle = went_idle
        self._host = host
        self._state = state
        self._queue = Queue(state, lambda: host.slots)
        self._reserve = reserve
        self._clock = clock

    @property
    def work(self) -> tuple[Work, ...]:
        """All work that has not ended."""
        return tuple(self._queue)

    def submit(self, work: Work) -> None:
        """Queue work and hand it to the host. The work ends with Busy when the system gives no thread."""
        work.peers, work.gives_way = self._queue.__iter__, self._queue.gives_way
        self._queue.add(work)
        if work.cancelled is not None:
            self.cancel(work)  # whoever cancelled it did not find it in the queue
            return
        try:
            self._host.submit(work, self)
        except Busy as error:
            self.refuse(work, error)

    def cancel(self, work: Work, reason: EdgeserveError | None = None) -> None:
        """End work: at once before its turn, else within a token or segment. Any thread."""
        work.abort(reason or Cancelled("the request was cancelled"))
        if self._queue.withdraw(work):
            self._finish(work)
        self._host.wake()

    def wake(self) -> None:
        """A reader has room, or others wait for the memory of answers that may rest. Any thread; never waits."""
        self._host.wake(self if self._queue.resting else None)

    def withdraw_last(self, clients: Iterable[Groups]) -> Work | None:
        """Take out the last work of the first of ``clients`` that has a request with no answer under way."""
        return self._queue.withdraw_last(clients)

    def withdraw_unread(self, may_cut: Callable[[Work], bool]) -> Work | None:
        """Take out an answer at rest that has waited for its reader for too long. It ends for that reason."""
        for work in self._queue.unread(self._clock() - REST_PATIENCE):
            if may_cut(work) and self._queue.withdraw(work):
                work.abort(_slow(REST_PATIENCE, PLACE))
                return work
        return None

    def end_withdrawn(self, work: Work, reason: EdgeserveError) -> None:
        """End work that was taken out, if for no other reason. The thread must not hold the gate's lock."""
        work.abort(reason)
        self._finish(work)

    def pauses(self, clients: Collection[Groups]) -> bool:
        """Whether an answer of these clients leaves the engine to others, at rest or as the longest unread one.

        Or one did so when further ones began, and goes on beside these: none of them can be displaced.
        """
        works = *self._queue.resting, self._host.slowest(0.0)
        return self._queue.exceeds(clients) or any(work is not None and work.place.groups in clients for work in works)

    def cut_slowest(self, may_cut: Callable[[Work], bool] = lambda work: True) -> bool:
        with self._state:
            slowest = self._host.slowest(PATIENCE)
            if slowest is None or slowest.cancel.is_set():
                return False
            work = next((one for one in (slowest, *self._host.unread(PATIENCE)) if may_cut(one)), None)
            if work is not None:
                self._cut(work, PATIENCE, PLACE)
            return work is not None

    def cut_for_waiting(self) -> bool:
        """As ``cut_slowest``, but no answer of a client that has fewer under way than each client that waits."""
        return self.cut_slowest(self._queue.claimed)

    def cut_unread(self, why: str) -> None:
        """Cut each answer that has waited for its reader for too long while ``why``, those at rest included."""
        self._cut_each(self._host.unread, why)
        for work in self._queue.unread(self._clock() - REST_PATIENCE):
            self.cancel(work, _slow(REST_PATIENCE, why))

    def cut_all_unread(self) -> None:
        """Cut all answers, if each has waited for its reader for too long."""
        self._cut_each(self._host.all_unread, OTHERS)

    def _cut_each(self, find: Callable[[float], Iterable[Work]], why: str) -> None:
        with self._state:
            for work in find(LONG_PATIENCE):
                self._cut(work, LONG_PATIENCE, why)

    def _cut(self, work: Work, seconds: float, why: str) -> None:
        work.abort(_slow(seconds, why))
        self._host.wake()

    # Called by the host

    def arriving(self, long_texts: bool = False) -> Work | None:
        return self._queue.arriving(long_texts)

    def arrive(self, work: Work) -> bool:
        return self._queue.arrive(work)

    def refuse(self, work: Work, error: Exception) -> None:
        if self._queue.withdraw(work):
            self._finish(work, error)

    def waits(self) -> bool:
        return self._queue.waits()

    def admit(self, beside: bool, newcomer: Idle | None = None) -> Admitted | None:
        now = self._clock()
        if beside:
            for work in list(self._queue.impatient(now)):
                self._finish(work, work.reduced)
        if (found := self._admit(self._queue.take_whole, beside, newcomer)) is not None:
            self._queue.rejoin()
            return found
        if beside and not self._host.stuck and self._queue.closed(now):  # a slow reader keeps nobody from beginning
            return None
        return self._admit(self._queue.take, beside, newcomer)

    def _admit(
        self, take: Callable[[Idle | None], Work | None], beside: bool, newcomer: Idle | None
    ) -> Admitted | None:
        while (work := take(newcomer)) is not None:
            admitted = Admitted(work, self._clock())
            try:
                if work.context.run(self._let_begin, admitted, beside):
                    return admitted
            except Exception as error:
                admitted.held.close()
                self.finish(admitted, error)
            else:
                self._queue.put_back(work)
                return None
        return None

    def finish(self, admitted: Admitted, error: Exception | None) -> None:
        admitted.work.rested = self._clock()
        if self._queue.wait_again(admitted.work, error):
            return
        if self._finish(admitted.work, error):
            began = (admitted.work.resumed and admitted.work.started) or admitted.started
            self.typical_seconds += 0.3 * (self._clock() - began - self.typical_seconds)

    def _let_begin(self, admitted: Admitted, beside: bool) -> bool:
        """False when the work must wait for memory. Raises when the work must not begin.

        Looks for a client that has gone before each step that costs others something.
        """
        work = admitted.work
        self._host.check_kind(work.request)
        work.check_wanted()
        if not self._reserve(admitted, beside):
            return False
        work.check_wanted()
        if not work.resumed:
            work.started = self._clock()
            work.begun(work.request)
        return True

    def _finish(self, work: Work, error: Exception | None = None) -> bool:
        """End work and tell its reader. False when it had ended before."""
        told = explain(self._host.spec.name, error) if error is not None else None
        if told is None or isinstance(told, Cancelled):  # who waits or computes knows no reason
            told = work.cancelled or told
        if error is not None:
            error.__traceback__ = None  # its frames know the request, and the list of ends in which the error stands
        if not self._queue.end(work):
            return False
        try:
            work.emit(Done(told))
        except Exception:
            log.exception("nobody could be told that a request has ended")
        return True


def _slow(seconds: float, why: str) -> SlowReader:
    text = f"the answer waited {seconds:g} s for its reader while {why}, and was cut"
    return SlowReader(f"{text}: read faster, or ask for less at a time")


class Asked:
    """A ``Cancel`` that is set while a request waits for its turn, and once the gate is ``closed``."""

    def __init__(self, turns: Turns, closed: Callable[[], bool]) -> None:
        self._turns = turns
        self._closed = closed

    def is_set(self) -> bool:
        return self._closed() or self._turns.waits()
