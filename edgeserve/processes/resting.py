"""A launcher that takes no memory while nobody needs it: it starts with the first child, and ends some time after the
last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from edgeserve.errors import ShuttingDown
from edgeserve.processes.child import Child, Children
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
    timer.name = "edgeserve idle launcher"
    return timer


class Resting:
    """A ``Launcher`` over those that ``make`` makes. ``timer`` makes a timer of seconds and a function."""

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
        self._children = Children()
        self._stopped = False

    def start(self) -> None:
        launcher = self._enter("workers")
        try:
            launcher.start()
        finally:
            self._leave()

    def launch(self, entry: str, arguments: dict[str, object], name: str) -> Child:
        launcher = self._enter(name)
        try:
            child = launcher.launch(entry, arguments, name)
        except BaseException:
            self._leave()
            raise
        child.on_close(self._leave)
        return self._children.add(child)

    def pids(self) -> list[int]:
        launcher = self._launcher
        return launcher.pids() if launcher else []

    def running(self) -> list[Child]:
        """The children that run."""
        return self._children.running()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._stop_timer()
            launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.stop()

    def _enter(self, name: str) -> Launcher:
        with self._lock:
            if self._stopped:
                raise ShuttingDown(f"the server ends and starts no process for {name}")
            self._stop_timer()
            if self._launcher is None:
                self._launcher = self._make()
            self._running += 1
            return self._launcher

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running or self._stopped or self._start_timer():
                return
        self._rest()

    def _start_timer(self) -> bool:
        """False where the system has no thread left for it: the launcher then ends at once."""
        self._stop_timer()
        timer = self._new_timer(self._idle_seconds, self._rest)
        try:
            timer.start()
        except RuntimeError:
            return False
        self._timer = timer
        return True

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rest(self) -> None:
        with self._lock:
            if self._running or self._stopped:
                return
            self._timer = None
            launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.stop()
