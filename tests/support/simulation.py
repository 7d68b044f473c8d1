"""Threads on a simulated clock: one of them runs at a time, and time passes only while all of them wait."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

FOREVER = float("inf")
PATIENCE = 20.0
"""Real seconds in which a thread must reach its next wait."""


class Over(BaseException):
    """Ends the threads that still wait when the simulation is over."""


def never() -> bool:
    return False


@dataclass(eq=False)
class Actor:
    """A thread that waits until the clock shows ``until``, or ``ready`` holds."""

    task: Callable[[], None]
    until: float = 0.0
    ready: Callable[[], bool] = never
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    error: BaseException | None = None
    ended: bool = False


class Simulation:
    """``dice`` decide who runs first when several can. ``now`` in seconds."""

    def __init__(self, dice: random.Random, now: float = 1000.0) -> None:
        self.now = now
        self._dice = dice
        self._actors: list[Actor] = []
        self._current: Actor | None = None
        self._yielded = threading.Semaphore(0)
        self._over = False

    def __call__(self) -> float:
        return self.now

    def spawn(self, task: Callable[[], None]) -> None:
        actor = Actor(task, self.now)
        self._actors.append(actor)
        threading.Thread(target=self._live, args=(actor,), daemon=True).start()

    def wait(self, seconds: float = FOREVER, ready: Callable[[], bool] = never) -> None:
        """The calling thread waits for so long, or until ``ready`` holds."""
        actor = self._current
        assert actor is not None
        actor.until, actor.ready = self.now + seconds, ready
        self._yielded.release()
        actor.go.acquire()
        if self._over:
            raise Over

    def run(self) -> None:
        """Until every thread has ended or waits for ever. Raises the first error of a thread."""
        try:
            while (actor := self._next()) is not None:
                self.now = max(self.now, min(actor.until, self.now) if actor.ready() else actor.until)
                self._resume(actor)
                if actor.error is not None:
                    raise actor.error
        finally:
            self._over = True
            for actor in self._actors:
                if not actor.ended:
                    self._resume(actor)

    def _next(self) -> Actor | None:
        waiting = [one for one in self._actors if not one.ended]
        can = [one for one in waiting if one.until <= self.now or one.ready()]
        if can:
            return self._dice.choice(can)
        earliest = min(waiting, key=lambda one: one.until, default=None)
        return None if earliest is None or earliest.until == FOREVER else earliest

    def _resume(self, actor: Actor) -> None:
        self._current = actor
        actor.go.release()
        assert self._yielded.acquire(timeout=PATIENCE), "a thread of the simulation waits for something else"

    def _live(self, actor: Actor) -> None:
        actor.go.acquire()
        try:
            if not self._over:
                actor.task()
        except Over:
            pass
        except BaseException as error:
            actor.error = error
        finally:
            actor.ended = True
            self._yielded.release()
