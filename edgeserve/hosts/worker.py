"""One thread that does its tasks in the order in which they came."""

from __future__ import annotations

import functools
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from edgeserve.errors import Busy

log = logging.getLogger("edgeserve.gate")


class Worker:
    """The first task starts the thread. A task that raises is logged, and the thread continues with the next.

    The thread calls ``idle``, if any, once after ``idle_after`` seconds without a task.
    """

    def __init__(self, name: str, idle: Callable[[], None] | None = None, idle_after: float = 0.0) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._idle = idle
        self._idle_after = idle_after

    @property
    def alive(self) -> bool:
        """False once the thread has ended without having been asked to. Any thread."""
        return self._thread is None or self._stopped or self._thread.is_alive()

    @property
    def waiting(self) -> bool:
        """True when a task waits. Any thread."""
        return not self._tasks.empty()

    def put(self, task: Callable[[], None]) -> None:
        """Add a task. Any thread; returns at once. Raises Busy when the system gives no thread for the first task."""
        self._tasks.put(task)
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system gives no more threads now; the next task tries again
                    text = f"no thread can be started for {self._name}: {error}; try again"
                    raise Busy(text, retry_after=2) from error
                self._thread = thread

    def call(self, task: Callable[[], None]) -> Future[None]:
        """As ``put``; the future says how the task ended."""
        future: Future[None] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    task()
                except Exception as error:
                    future.set_exception(error)
                else:
                    future.set_result(None)

        self.put(run)
        return future

    def stop(self) -> None:
        """End the thread. Blocks until every task that was put before is done."""
        self._stopped = True
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()

    def _loop(self) -> None:
        while (task := self._next()) is not None:
            try:
                task()
            except Exception:
                log.exception("a task of %s failed; the thread goes on with the next", self._name)

    def _next(self) -> Callable[[], None] | None:
        if self._idle is None:
            return self._tasks.get()
        try:
            return self._tasks.get(timeout=self._idle_after)
        except queue.Empty:
            return functools.partial(self._idle_once, self._idle)

    def _idle_once(self, idle: Callable[[], None]) -> None:
        """The idle task once, then wait for a task without a limit."""
        idle()
        if (task := self._tasks.get()) is not None:
            task()
        else:
            self._tasks.put(None)
