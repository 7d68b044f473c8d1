"""One wake-up of the event loop for all events of a round.

Each wake-up costs a system call, in which the thread lends the interpreter's lock to the event loop. A round with an
event for each of eight readers would stop eight times.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Loop(Protocol):
    """asyncio's event loop, as far as this room needs it: workers import no asyncio."""

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any) -> Any: ...


class _Round(threading.local):
    """The calls that the round of this thread holds back, by their loops; None outside a round."""

    held: dict[Loop, list[Callable[[], object]]] | None = None

    def __enter__(self) -> None:
        self.held = {}

    def __exit__(self, *error: object) -> None:
        flush()
        self.held = None


_round = _Round()


def held() -> AbstractContextManager[None]:
    """Hold back the wake-ups of this thread until the end of the block."""
    return _round  # no object of its own: one stream makes a round of each token


def flush() -> None:
    """Let the calls go that are held back, in their order for each loop: slow work follows."""
    if held := _round.held:
        _round.held = {}
        for loop, calls in held.items():
            _send(loop, calls)


def wake(loop: Loop, call: Callable[[], object]) -> None:
    """Call ``call`` on the event loop, now or at the end of the round. Any thread."""
    if (held := _round.held) is None:
        _send(loop, [call])
    else:
        held.setdefault(loop, []).append(call)


def _send(loop: Loop, calls: Sequence[Callable[[], object]]) -> None:
    with contextlib.suppress(RuntimeError):  # a closed loop means that the server has ended: there is no reader
        loop.call_soon_threadsafe(_do, calls)


def _do(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()
