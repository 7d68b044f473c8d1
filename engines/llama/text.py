"""Turns a model's bytes into certain text: whole characters, and no beginning of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Decodes pieces of UTF-8, and holds back text that may begin a stop string. ``stop``: the one found."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pending = ""
        self.stop = ""

    @property
    def stopped(self) -> bool:
        return bool(self.stop)

    def feed(self, piece: bytes) -> str:
        """The text that is certain now. When a stop string is found, the text before it is the last."""
        text = self._decoder.decode(piece)
        if not self._stops:
            return text
        self._pending += text
        found = [(at, stop) for stop in self._stops if (at := self._pending.find(stop)) >= 0]
        if found:
            at, self.stop = min(found)
            text, self._pending = self._pending[:at], ""
            return text
        cut = len(self._pending) - self._held()
        text, self._pending = self._pending[:cut], self._pending[cut:]
        return text

    def flush(self) -> str:
        """The text held back, after the last ``feed``."""
        text, self._pending = self._pending + self._decoder.decode(b"", final=True), ""
        return text

    def _held(self) -> int:
        """Length of the longest suffix of the pending text that begins a stop string."""
        longest = min(max(map(len, self._stops), default=0) - 1, len(self._pending))
        for length in range(longest, 0, -1):
            end = self._pending[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
