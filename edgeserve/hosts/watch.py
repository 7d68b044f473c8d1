"""A watch over a worker that owes answers: how long it has been silent, and without progress."""

from __future__ import annotations

from collections.abc import Callable

from edgeserve.processes.frames import Frame, Kind

HANG = 30.0
"""Seconds without a pulse after which a worker that owes an answer is killed; it sends one each second."""
STUCK = 600.0
"""Seconds in which a worker sends pulses but makes no progress, after which it is killed. A slow box may take minutes
to open a model, or for a step of a long prompt."""
LOOKS = 5
"""Looks in a row at which a worker must be late. A box that stood still, such as a paused container, has nobody to
blame. Its first look comes before the worker's next pulse."""


class Watch:
    """The caller guards it by a lock, but for ``heard``, which one thread calls. ``clock`` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard = self._moved = clock()
        self._rounds: object = None
        self._owed: set[int] = set()
        self._late = 0

    def owe(self, number: int) -> None:
        """The worker owes an answer. Its silence counts from now on: an idle worker sends no pulse."""
        if not self._owed:
            self._heard = self._moved = self._clock()
        self._owed.add(number)

    def settle(self, number: int) -> None:
        """The worker has ended an answer, or was not asked for it after all."""
        self._owed.discard(number)

    @property
    def owes(self) -> bool:
        """Whether the worker owes an answer. Any thread."""
        return bool(self._owed)

    def heard(self, frame: Frame) -> None:
        """A frame has come. A pulse alone is no progress; its head counts the worker's rounds."""
        now = self._clock()
        rounds = frame.head if frame.kind is Kind.PULSE else None
        if rounds is None or rounds != self._rounds or now - self._heard > HANG:
            self._moved = now
        self._heard = now
        if frame.kind is Kind.PULSE:
            self._rounds = rounds

    def look(self, patience: float = HANG) -> str | None:
        """Why the worker must be killed; None while it need not be. ``patience``: longest silence in seconds."""
        now = self._clock()
        why = None
        if now - self._heard > patience:
            why = f"it has given no sign of life for {patience:g} s"
        elif now - self._moved > STUCK:
            why = f"it has made no progress for {STUCK:g} s"
        self._late = self._late + 1 if why else 0
        return why if self._late >= LOOKS else None
