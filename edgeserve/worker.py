"""One thread that does what it is given, in the order it came."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Worker:
    """Started by its first task. A task must not raise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, task: Callable[[], None]) -> None:
        """Any thread; returns at once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()
        self._tasks.put(task)

    def stop(self) -> None:
        """Blocks until all that was put before is done."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()

    def _loop(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
