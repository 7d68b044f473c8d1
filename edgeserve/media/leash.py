"""A leash on work in a child: whoever holds its other end can kill the child at any time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from edgeserve.errors import Cancelled


class Leash:
    """Ends the work of one request. Any thread may cut it, also before the work has begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kill: Callable[[], None] | None = None
        self.is_cut = False

    def cut(self) -> None:
        """Kill the child, if there is one. Work that begins later is refused. Never waits."""
        with self._lock:
            self.is_cut = True
            if self._kill is not None:
                self._kill()

    def hold(self, kill: Callable[[], None]) -> None:
        """Let ``cut`` call ``kill``. Raises Cancelled once the leash is cut."""
        with self._lock:
            if self.is_cut:
                raise self._cancelled()
            self._kill = kill

    def let_go(self) -> None:
        """The child has ended: its pid may belong to another process soon."""
        with self._lock:
            self._kill = None

    def check(self) -> None:
        """Raises Cancelled once the leash is cut."""
        if self.is_cut:
            raise self._cancelled()

    def _cancelled(self) -> Cancelled:
        return Cancelled("the client went away")
