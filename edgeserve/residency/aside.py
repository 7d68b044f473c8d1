"""Threads for one kind of slow work. The work delays neither other kinds of work nor the end of the process."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import field
from typing import Any, ParamSpec, TypeVar

from edgeserve import clients
from edgeserve.clients import Groups, Idle
from edgeserve.dataclass import dataclass
from edgeserve.errors import Busy
from edgeserve.residency.rounds import Place, Rounds
from edgeserve.shares import Shares
from edgeserve.system.thread_start import start_unawaited

REST = 0.5
"""Seconds without work after which a thread ends. An engine that reads the load of other threads four times a second
sees all that this one took (``system/python_threads.py``)."""
SPARE = Idle.CLIENT, Idle.KEY
"""Who gets the threads beyond those of all."""
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Task:
    """One piece of work for the current client. ``call`` is gone once a thread does it."""

    call: Callable[[], Any] | None
    future: Future[Any] = field(default_factory=Future)
    place: Place = field(default_factory=lambda: Place(clients.current.get()))

    def do(self) -> None:
        """Do the work on the calling thread."""
        # Nothing of the work stays here: the thread that waits for the lock afterwards must not keep a request alive.
        call, self.call, future, self.future = self.call, None, self.future, Future()
        if call is not None and future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # the caller gets it
                future.set_exception(error)
                del future, call  # else they and the error's traceback would keep each other, and the request, alive


class Aside:
    """At most ``threads`` threads, which end when no work waits. Clients take turns.

    Where there are several threads, two more are spare. One is for a client with nothing under way, the other for a key
    with nothing under way. So the slow work of one client never holds all threads, nor does that of one key.
    While ``most`` pieces wait, work of the client with the most gives its place to one with fewer, and other work is
    refused with Busy.
    A thread stays for ``rest`` seconds after its work: to start one takes longer than many a short piece.
    """

    def __init__(self, name: str, threads: int, most: int = 64, rest: float = REST) -> None:
        self._name, self._threads, self._most, self._rest = name, threads, most, rest
        self._lock = threading.Lock()
        self._waiting: Rounds[Task] = Rounds()
        self._running = self._resting = 0
        self._handed: queue.SimpleQueue[Task] = queue.SimpleQueue()
        """Tasks for resting threads."""

    async def run(self, work: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
        """Do ``work``; return or raise its result. Work that is cancelled while it waits never begins."""
        call = functools.partial(contextvars.copy_context().run, work, *values, **named)
        return await asyncio.wrap_future(self._put(Task(call)))

    def _put(self, task: Task) -> Future[Any]:
        displaced, future = None, task.future
        with self._lock:
            if self._is_free(task) and self._begins(task):
                return future
            self._forget_cancelled()
            if len(self._waiting) >= self._most:
                displaced = self._displaced(task.place.groups)
            self._waiting.add(task)
        if displaced is not None and displaced.future.set_running_or_notify_cancel():
            displaced.future.set_exception(self._full())
        return future

    def _is_free(self, task: Task) -> bool:
        """Whether a thread is free for the task."""
        if self._running < self._threads:
            return True
        return self._spare is not None and self._waiting.is_idle(task.place.groups, self._spare)

    @property
    def _spare(self) -> Idle | None:
        """Who gets the next spare thread; None where all run."""
        beyond = self._running - self._threads
        return SPARE[beyond] if self._threads > 1 and 0 <= beyond < len(SPARE) else None

    def _forget_cancelled(self) -> None:
        for task in self._waiting:
            if task.future.cancelled():
                self._waiting.remove(task)

    def _displaced(self, groups: Groups) -> Task:
        """Take out the last task of the client with the most. Raises Busy if nobody has more than ``groups``."""
        shares = Shares(task.place.groups for task in self._waiting)
        for other in shares.greedier(groups):
            if (last := self._waiting.last(other)) is not None:
                self._waiting.remove(last)
                return last
        raise self._full()

    def _full(self) -> Busy:
        text = f"{self._most} requests wait for {self._name}, which is the limit; try again soon"
        return Busy(text, retry_after=2)

    def _begins(self, task: Task) -> bool:
        """True when a thread does the task. Raises Busy when the system gives no thread and none runs."""
        if self._resting:
            self._resting -= 1
            self._handed.put(task)
        elif not self._starts(task):
            return False
        self._running += 1
        self._waiting.begin(task)
        return True

    def _starts(self, task: Task) -> bool:
        """True when a new thread does the task. Raises Busy as ``_begins``."""
        # A daemon: a look-up that hangs must not hold up the end of the process.
        thread = threading.Thread(target=self._work, args=[task], name=f"edgeserve {self._name}", daemon=True)
        try:
            start_unawaited(thread)  # the event loop must not wait for the thread's first turn
        except RuntimeError as error:  # the system gives no more threads now
            if not self._running:
                raise Busy(f"no thread can be started for {self._name}: {error}; try again", retry_after=2) from error
            return False
        return True

    def _next(self, done: Task) -> Task | None:
        with self._lock:
            self._waiting.end(done)
            self._running -= 1
            if (task := self._waiting.take(idle=self._spare)) is not None:
                self._running += 1
            elif self._rest:
                self._resting += 1
        return task or self._rested()

    def _rested(self) -> Task | None:
        """The task that a resting thread gets; None when none came."""
        if not self._rest:
            return None
        try:
            return self._handed.get(timeout=self._rest)
        except queue.Empty:
            with self._lock:
                try:
                    return self._handed.get_nowait()  # it came as the time was up
                except queue.Empty:  # none came, or another thread that rests has just taken it
                    self._resting -= 1
                    return None

    def _work(self, task: Task | None) -> None:
        while task is not None:
            task.do()
            task = self._next(task)
