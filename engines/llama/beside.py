"""Work of one answer beside the batch loop, which goes on with the others meanwhile.

A schema may make one token of its answer cost more than a step of the model: measured, up to a second in llama.cpp,
which nothing can stop in the middle. Mostly it takes a millisecond, so the loop waits a moment before it goes on.
"""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable, Generator
from typing import TypeVar

from edgeserve.errors import Busy

T = TypeVar("T")

MOMENT = 0.01
"""Seconds that the loop waits for work which was quick the last time."""
GLANCE, ALONE = 0.001, 0.05
"""Seconds between two looks at work that takes longer: with others at work, and without."""
THREADS = 8
"""Of all engines together. Work that was left by its answer goes on to its end, or is never begun: no more piles up."""


class Beside:
    """Of one answer. ``busy``: slots of the batch that are taken; ``slots``: how many of them are the answer's own."""

    def __init__(self, busy: Callable[[], int]) -> None:
        self._busy = busy
        self.slots = 0
        self._late = False
        self._last: concurrent.futures.Future[object] | None = None

    def run(self, work: Callable[[], T], undo: Callable[[T], None] | None = None) -> Generator[None, None, T]:
        """What ``work`` returns or raises; None while others go on. ``undo`` gets what comes too late."""
        future = _begun(work)
        self._last = future  # type: ignore[assignment]
        wait = self._pause() if self._late else MOMENT
        self._late = False
        try:
            while not concurrent.futures.wait([future], wait).done:
                self._late = True
                yield None
                wait = self._pause()
        except GeneratorExit:
            if not future.cancel() and undo is not None:  # what has not begun is left undone: others wait behind it
                future.add_done_callback(functools.partial(_undone, undo))
            raise
        return future.result()

    def then(self, last: Callable[[], None]) -> None:
        """Do this once nothing of the answer's is at work any more: now, or on that thread."""
        if self._last is None:
            last()
        else:
            self._last.add_done_callback(lambda _: last())

    def _pause(self) -> float:
        return ALONE if self._busy() <= self.slots else GLANCE


def _begun(work: Callable[[], T]) -> concurrent.futures.Future[T]:
    """Raises Busy where the system gives no thread. The work stays in the queue then, so it is withdrawn: another
    thread would do it when its answer has freed what it works on."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    try:
        _threads().submit(_do, future, work)
    except RuntimeError as error:
        if future.cancel():
            raise Busy(f"no thread can be started for the request: {error}; try again", retry_after=2) from error
    return future


def _do(future: concurrent.futures.Future[T], work: Callable[[], T]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:  # the one who asked gets it
            future.set_exception(error)
            del future, work  # else the error's traceback would keep them


def _undone(undo: Callable[[T], None], future: concurrent.futures.Future[T]) -> None:
    if not future.cancelled() and future.exception() is None:
        undo(future.result())


@functools.cache
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="edgeserve-grammar")
