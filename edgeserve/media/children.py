"""Starts short-lived children, from a fork server of their own that ends when there is nothing to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from edgeserve.errors import Busy, ShuttingDown
from edgeserve.media.helper import Helper
from edgeserve.media.leash import Leash
from edgeserve.media.task import Task
from edgeserve.processes.launcher import Launcher

IDLE_SECONDS = 60.0
"""Time without a child after which the launcher ends, and its memory returns."""


class Timer(Protocol):
    def start(self) -> None: ...
    def cancel(self) -> None: ...


def daemon(seconds: float, call: Callable[[], None]) -> Timer:
    """A timer that does not hold up the end of the process."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.name = "edgeserve idle decoders"
    return timer


def scarce(what: str, error: OSError) -> Busy:
    """The error for a system that has no descriptor or memory left for some work."""
    return Busy(f"the system has nothing left for {what}: {error.strerror}; try again", retry_after=5)


class Children:
    """Any thread may use it. ``make`` gives a launcher that has imported what the children need.

    ``timer`` makes a timer of seconds and a function.
    """

    def __init__(
        self,
        make: Callable[[], Launcher],
        *,
        idle_seconds: float = IDLE_SECONDS,
        timer: Callable[[float, Callable[[], None]], Timer] = daemon,
    ) -> None:
        self._make, self._idle_seconds, self._new_timer = make, idle_seconds, timer
        self._lock = threading.Lock()
        self._launcher: Launcher | None = None
        self._timer: Timer | None = None
        self._running = 0
        self._closed = False

    @property
    def is_ready(self) -> bool:
        """Whether there is a launcher, which takes memory."""
        return self._launcher is not None

    def prepare(self) -> None:
        """Begin what the first child would wait for. Raises Busy and EngineFailure as ``start`` does; never waits."""
        launcher = self._enter()
        try:
            launcher.start()
        finally:
            self._leave()

    def start(self, task: Task, leash: Leash | None = None) -> Helper:
        """Start a child for ``task``; the caller closes it. Blocks until it has a pid.

        Raises Busy, EngineFailure and ShuttingDown as ``Launcher.launch`` does, and Cancelled for a leash that is cut.
        """
        leash = leash or Leash()
        leash.check()
        launcher = self._enter()
        try:
            child = launcher.launch(task.entry, {"memory": task.bounds.memory, "cpu": task.bounds.cpu}, task.name)
        except OSError as error:
            self._leave()
            raise scarce(task.name, error) from error
        except BaseException:
            self._leave()
            raise
        return Helper(child, task, leash, self)

    def close(self) -> None:
        """End the launcher, and with it all children. Blocks for seconds at most."""
        with self._lock:
            self._closed = True
            self._stop_timer()
            launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.stop()

    def _enter(self) -> Launcher:
        with self._lock:
            self.check()
            self._stop_timer()
            if self._launcher is None:
                self._launcher = self._make()
            self._running += 1
            return self._launcher

    def check(self) -> None:
        """Raises ShuttingDown once the children are closed."""
        if self._closed:
            raise ShuttingDown("the server ends and decodes nothing more")

    def ended(self) -> None:
        """A helper has closed its child."""
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0 and not self._closed:
                self._stop_timer()
                self._timer = self._new_timer(self._idle_seconds, self._idle)
                self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _idle(self) -> None:
        with self._lock:
            if self._running or self._closed:
                return
            self._timer = None
            launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.stop()
