"""Slow work of one answer on a thread of its own, while the batch loop decodes the other answers.

A schema may make one token cost more than a step of the model: measured, up to a second. Nothing can stop llama.cpp in
the middle of it. Most such work takes a millisecond, so the loop waits a moment for it before the next step.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from edgeserve.errors import Busy

T = TypeVar("T")

FIRST_WAIT = 0.01
"""Seconds that the loop waits for new work, if the work before was done in time."""
POLL_SHARED, POLL_ALONE = 0.001, 0.05
"""Seconds that the loop waits for late work before each step: with other answers under way, and without."""
Threads: TypeAlias = "Callable[[], concurrent.futures.ThreadPoolExecutor]"
THREADS = 8
"""Threads of all engines together. Begun work continues after its answer is cancelled, so their number bounds it."""


class Background:
    """Background work of one answer.

    ``busy`` counts the busy slots of the batch; ``slots`` of them are the answer's own. ``threads`` do the work.
    """

    def __init__(self, busy: Callable[[], int], threads: Threads | None = None) -> None:
        self._busy = busy
        self._threads = threads or computing
        self.slots = 0
        self._late = False
        self._last: concurrent.futures.Future[object] | None = None

    def run(self, work: Callable[[], T], undo: Callable[[T], None] | None = None) -> Generator[None, None, T]:
        """Return or raise as ``work`` does. Yields None for each step that the batch shall take meanwhile.

        When the answer is closed early, ``undo`` receives the result. Raises Busy when no thread can be started.
        """
        future = _submit(work, self._threads)
        self._last = future  # type: ignore[assignment]
        wait = self._poll_interval() if self._late else FIRST_WAIT
        self._late = False
        try:
            while not concurrent.futures.wait([future], wait).done:
                self._late = True
                yield None
                wait = self._poll_interval()
        except GeneratorExit:
            if not future.cancel() and undo is not None:  # work that has not begun never does
                future.add_done_callback(functools.partial(_undo_result, undo))
            raise
        return future.result()

    def when_done(self, last: Callable[[], None]) -> None:
        """Call ``last`` when no work of the answer is running: now, or later on the work's thread."""
        if self._last is None:
            last()
        else:
            self._last.add_done_callback(lambda _: last())

    def _poll_interval(self) -> float:
        return POLL_ALONE if self._busy() <= self.slots else POLL_SHARED


def _submit(work: Callable[[], T], threads: Threads) -> concurrent.futures.Future[T]:
    """Queue the work. Raises Busy when the system gives no thread."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    try:
        threads().submit(_execute, future, work)
    except RuntimeError as error:
        # The work is still in the queue. Another thread would do it after its answer has freed what it works on.
        if future.cancel():
            raise Busy(f"no thread can be started for the request: {error}; try again", retry_after=2) from error
    return future


def _execute(future: concurrent.futures.Future[T], work: Callable[[], T]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:  # the caller of run gets it
            future.set_exception(error)
            del future, work  # otherwise the error's traceback would keep them alive


def _undo_result(undo: Callable[[T], None], future: concurrent.futures.Future[T]) -> None:
    if not future.cancelled() and future.exception() is None:
        undo(future.result())


@functools.cache
def computing() -> concurrent.futures.ThreadPoolExecutor:
    """Threads for work that computes."""
    return concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="edgeserve-grammar")


@functools.cache
def following() -> concurrent.futures.ThreadPoolExecutor:
    """Threads for clients' grammars, which wait for each other: answers with schemas never wait for one of them."""
    return concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="edgeserve-follow")


@functools.cache
def writing() -> concurrent.futures.ThreadPoolExecutor:
    """One thread for work on the disk: what it reads is of the size of a conversation, and is there once."""
    return concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="edgeserve-disk")
