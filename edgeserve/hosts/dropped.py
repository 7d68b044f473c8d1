"""Prepared requests that nobody wants any more, until a frame reports them to the worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator


class Dropped:
    """Any thread may use it, a finaliser too."""

    def __init__(self) -> None:
        self._numbers: deque[int] = deque()

    def add(self, number: int) -> None:
        self._numbers.append(number)

    def take(self) -> Iterator[int]:
        """Each number once. Several threads send, and each may take the last one."""
        while True:
            try:
                number = self._numbers.popleft()
            except IndexError:
                return
            yield number
