"""Spans of traces, as the server makes them. Where nobody collects traces, there are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from edgeserve.figures.trace import Trace

Attributes = Mapping[str, str | int | float | tuple[str, ...]]


class Span(Protocol):
    """The span of one request. Times in seconds of ``time.monotonic``. Any thread."""

    @property
    def trace(self) -> Trace:
        """Its place in the trace."""
        ...

    def child(self, name: str, began: float, ended: float, attributes: Attributes) -> None:
        """Tell a part of the request that is over."""
        ...

    def end(self, attributes: Attributes, *, failed: bool) -> None:
        """The request is over."""
        ...


class Traces(Protocol):
    """Makes the spans of requests."""

    def begin(self, name: str, parent: Trace | None) -> Span | None:
        """The span of a request that begins now; None where nobody collects it."""
        ...

    def close(self) -> None:
        """Send what was collected, for a bounded time. Blocks."""
        ...


class NoTraces:
    """Nobody collects traces."""

    def begin(self, name: str, parent: Trace | None) -> Span | None:
        return None

    def close(self) -> None: ...
