"""Bytes of requests in the serving process, which belong to no engine."""

from __future__ import annotations


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
