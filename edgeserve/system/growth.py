"""The growth of this process while an engine opens, and other work that takes memory meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from edgeserve.dataclass import dataclass
from edgeserve.system import pages


class Others:
    """Work that takes memory beside an engine on its way up, such as the preparation of requests. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = self._begun = 0

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Lasts while such work is under way."""
        with self._lock:
            self._running, self._begun = self._running + 1, self._begun + 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def mark(self) -> int | None:
        """None while such work is under way. Two equal marks: none was, nor between them."""
        with self._lock:
            return None if self._running else self._begun


others = Others()
"""The work in this process."""


@dataclass(frozen=True, slots=True)
class Grown:
    """Private bytes that came. ``exact``: none of them are of other work."""

    bytes: int = 0
    exact: bool = True

    def __add__(self, more: Grown) -> Grown:
        return Grown(self.bytes + more.bytes, self.exact and more.exact)


class Growth:
    """Private bytes by which this process grows from now on. ``read`` returns its private bytes."""

    def __init__(self, read: Callable[[], int] = pages.private_bytes, beside: Others = others) -> None:
        self._read, self._others = read, beside
        self._mark, self._before = beside.mark(), read()

    def end(self) -> Grown:
        """The growth until now; never negative."""
        grown = max(0, self._read() - self._before)
        return Grown(grown, self._mark is not None and self._mark == self._others.mark())
