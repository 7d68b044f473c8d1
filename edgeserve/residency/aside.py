"""Threads for one kind of slow work. The work delays neither other kinds of work nor the end of the process."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

from edgeserve.errors import Busy

P = ParamSpec("P")
T = TypeVar("T")
Task = tuple[Future[Any], Callable[[], Any]]


class Aside:
    """At most ``threads`` threads, which end when no work waits. Refuses work with Busy while ``most`` pieces wait."""

    def __init__(self, name: str, threads: int, most: int = 64) -> None:
        self._name, self._threads, self._most = name, threads, most
        self._lock = threading.Lock()
        self._waiting: deque[Task] = deque()
        self._running = 0

    async def run(self, work: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
        """Do ``work``; return or raise its result. Work that is cancelled while it waits never begins."""
        call = functools.partial(contextvars.copy_context().run, work, *values, **named)
        return await asyncio.wrap_future(self._put(call))

    def _put(self, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._running < self._threads and self._begins((future, call)):
                return future
            self._waiting = deque(one for one in self._waiting if not one[0].cancelled())
            if len(self._waiting) >= self._most:
                text = f"{len(self._waiting)} requests wait for {self._name}, which is the limit; try again soon"
                raise Busy(text, retry_after=2)
            self._waiting.append((future, call))
        return future

    def _begins(self, task: Task) -> bool:
        """True when a new thread does the task. Raises Busy when the system gives no thread and none runs."""
        # A daemon: a look-up that hangs must not hold up the end of the process.
        thread = threading.Thread(target=self._work, args=[task], name=f"edgeserve {self._name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system gives no more threads now
            if not self._running:
                raise Busy(f"no thread can be started for {self._name}: {error}; try again", retry_after=2) from error
            return False
        self._running += 1
        return True

    def _next(self) -> Task | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None

    def _work(self, task: Task | None) -> None:
        while task is not None:
            _do(*task)
            task = None  # a thread that waits for the lock must not keep a request alive
            task = self._next()


def _do(future: Future[Any], call: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(call())
        except BaseException as error:  # the caller gets it
            future.set_exception(error)
            del future, call  # else they and the error's traceback would keep each other, and the request, alive
