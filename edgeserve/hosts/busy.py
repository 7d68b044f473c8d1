"""The threads of a worker that have work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Busy:
    """Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._names: set[str] = set()

    def begin(self, name: str) -> None:
        """The thread ``name`` has work from now on."""
        with self._changed:
            self._names.add(name)
            self._changed.notify_all()

    def end(self, name: str) -> None:
        with self._changed:
            self._names.discard(name)

    @contextlib.contextmanager
    def at(self, name: str) -> Iterator[None]:
        """The thread ``name`` has work within the block."""
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until a thread has work. False when none had any within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._names), seconds)
