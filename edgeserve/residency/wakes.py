"""One wake-up of the event loop for all events of a round.

Each wake-up costs a system call, in which the thread lends the interpreter's lock to the event loop. A round with an
event for each of eight readers would stop eight times.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class Loop(Protocol):
    """asyncio's event loop, as far as this room needs it: workers import no asyncio."""

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any) -> Any: ...


class _Round(threading.local):
    """The calls that the round of this thread holds back; None outside a round."""

    held: list[tuple[Loop, Callable[[], object]]] | None = None


_round = _Round()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Hold back the wake-ups of this thread until the end of the block."""
    _round.held = []
    try:
        yield
    finally:
        flush()
        _round.held = None


def flush() -> None:
    """Let the calls go that are held back, in their order: slow work follows."""
    if calls := _round.held:
        _round.held = []
        for loop in dict.fromkeys(loop for loop, _ in calls):
            _send(loop, [call for other, call in calls if other is loop])


def wake(loop: Loop, call: Callable[[], object]) -> None:
    """Call ``call`` on the event loop, now or at the end of the round. Any thread."""
    if _round.held is None:
        _send(loop, [call])
    else:
        _round.held.append((loop, call))


def _send(loop: Loop, calls: Sequence[Callable[[], object]]) -> None:
    with contextlib.suppress(RuntimeError):  # a closed loop means that the server has ended: there is no reader
        loop.call_soon_threadsafe(_do, calls)


def _do(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()
