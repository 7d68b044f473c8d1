"""Bytes of requests in the serving process, which belong to no engine."""

from __future__ import annotations

import contextvars
from collections.abc import Callable

own: contextvars.ContextVar[Callable[[], int]] = contextvars.ContextVar("own", default=lambda: 0)
"""Returns the bytes of the request that is served, which stay until its end. Threads of hosts see it, too."""


class Traffic:
    """The event loop counts, any thread reads.

    ``came``: bytes that have arrived so far. ``gone``: those of them that are free again.
    """

    def __init__(self) -> None:
        self.came = self.gone = 0

    @property
    def held(self) -> int:
        return self.came - self.gone

    def since(self, gone: int) -> int:
        """Bytes that were here at some time since ``gone`` was read."""
        return self.came - gone
