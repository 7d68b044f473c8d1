"""The watch over the machines of a split: whether each gives its pulse while the worker owes an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from edgeserve.errors import Busy
from edgeserve.splits.pulse import Pulses

EVERY = 1.0
"""Seconds between two looks."""


class NodeWatch:
    """Looks on a thread of its own until ``stop``. ``owes``: whether the worker owes an answer now. ``lost`` gets the
    endpoints of the machines that have stopped answering, once. Raises Busy when the system gives no thread.
    """

    def __init__(
        self,
        pulses: Pulses,
        owes: Callable[[], bool],
        lost: Callable[[Sequence[str]], None],
        every: float = EVERY,
    ) -> None:
        self._pulses = pulses
        self._owes = owes
        self._lost = lost
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, name="edgeserve-nodes", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            pulses.close()
            raise Busy(
                f"no thread can be started to watch other machines: {error}; try again", retry_after=2
            ) from error

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """End the thread; idempotent."""
        self._stopped.set()
        self._thread.join()

    def _look(self) -> None:
        try:
            while not self._stopped.wait(self._every):
                if lost := self._pulses.look(self._owes()):
                    self._lost(lost)
                    return
        finally:
            self._pulses.close()
