"""The last half hour of memory: a sample a second, and the happenings that explain it.

Figures stay in rings of small numbers, so the past takes at most 160 KB. A model's row is written only when it
differs from the one before: an idle server writes one row of 32 bytes a second.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung
from edgeserve.memory.ring import Ring

SAMPLES = 1800
"""Samples that are kept: half an hour at one a second."""
CHANGES = 3600
"""Changes of models that are kept. More of them in half an hour shorten the past that is kept."""
HAPPENINGS = 200
"""Happenings that are kept."""
NAMES = 512
"""Models that the rings name at most before those that no row names are forgotten."""
TICK = 0.1
"""Seconds; the unit of the times in the rings."""
RARELY = 5.0
"""Seconds between two happenings that a client can cause as often as it likes."""
GONE = len(Rung)
"""In place of a rung: the model is served no more."""


class Sample(NamedTuple):
    """The machine and the server at one moment. Sizes in MB.

    ``pressure`` is a Level, and ``percent`` of the budget is in use. ``private`` and ``mapped`` are the server's.
    """

    pressure: int
    percent: int
    private: int
    mapped: int
    budget: int
    available: int
    total: int


class Held(NamedTuple):
    """One model at one moment, as booked. Sizes in MB; memory of a card of its own counts as private.

    ``leases``: requests that hold it. ``uses``: requests that it has served or serves.
    """

    rung: int
    private: int
    mapped: int
    leases: int
    uses: int


@dataclass(frozen=True, slots=True)
class Happening:
    """``at`` on the timeline's clock. ``kind`` as in docs/api/memory.md. ``model``: its id, empty for none."""

    at: float
    kind: str
    model: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """A sample, at ``at`` on the timeline's clock, with the models that differ from the sample before; None: gone."""

    at: float
    sample: Sample
    models: Mapping[str, Held | None]


@dataclass(slots=True)
class Place:
    """The progress of a listener: numbers of its next sample, change and happening. ``models`` as it knows them."""

    sample: int
    change: int
    happening: int
    models: dict[str, Held] = dataclasses.field(default_factory=dict)


class Timeline:
    """Any thread. ``clock`` in seconds; ``wall`` in seconds since the epoch. ``samples`` and ``changes`` are kept."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        *,
        samples: int = SAMPLES,
        changes: int = CHANGES,
    ) -> None:
        self._clock, self._wall = clock, wall
        self._began = clock()
        self._lock = threading.Lock()
        self._samples = Ring(1 + len(Sample._fields), samples)
        self._changes = Ring(2 + len(Held._fields), changes)
        self._happenings: deque[Happening] = deque(maxlen=HAPPENINGS)
        self._happened = 0
        self._names: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._named, self._most_names = 0, NAMES
        self._before: dict[str, Held] = {}
        """The models before the oldest change that is kept, which is of the sample ``_known_from`` or a later one."""
        self._known_from = 0
        self._now: dict[str, Held] = {}
        self._listeners: dict[object, Callable[[], None]] = {}

    # Writing

    def record(self, sample: Sample, models: Mapping[str, Held]) -> None:
        """Append a sample, with all models of the moment by id."""
        with self._lock:
            changed = {name: held for name, held in models.items() if self._now.get(name) != held}
            gone = [name for name in self._now if name not in models]
            for name, held in (*changed.items(), *((name, Held(GONE, 0, 0, 0, 0)) for name in gone)):
                self._change(name, held)
            self._samples.append((round((self._clock() - self._began) / TICK), *sample))
            self._now = dict(models)
        self._wake()

    def note(self, kind: str, model: str = "", **details: Any) -> None:
        """Append a happening. ``details`` are values that JSON has."""
        with self._lock:
            self._happenings.append(Happening(self._clock(), kind, model, details))
            self._happened += 1
        self._wake()

    def note_rarely(self, kind: str, model: str, **details: Any) -> None:
        """As ``note``, at most once in ``RARELY`` seconds for a kind and model: a client may ask again and again."""
        with self._lock:
            since = self._clock() - RARELY
            recent = itertools.takewhile(lambda one: one.at > since, reversed(self._happenings))
            if any((one.kind, one.model) == (kind, model) for one in recent):
                return
        self.note(kind, model, **details)

    def _change(self, name: str, held: Held) -> None:
        if (number := self._numbers.get(name)) is None:
            if len(self._names) >= self._most_names:
                self._forget_names()
            number = self._numbers[name] = self._named
            self._names[number] = name
            self._named += 1
        lost = self._changes.append((self._samples.end, number, *held))
        if lost is not None:
            self._known_from = lost[0]
            _apply(self._before, self._names[lost[1]], Held(*lost[2:]))

    def _forget_names(self) -> None:
        used = {row[1] for row in self._changes.rows()}
        for number, name in tuple(self._names.items()):
            if number not in used and name not in self._now and name not in self._before:
                del self._names[number], self._numbers[name]
        self._most_names = max(NAMES, 2 * len(self._names))  # so that looking at all rows stays rare

    # Reading

    @property
    def changes(self) -> int:
        """Changes of models so far."""
        return self._changes.end

    @property
    def size(self) -> int:
        """Bytes of the rings."""
        return self._samples.size + self._changes.size

    def wall(self, at: float) -> float:
        """Seconds since the epoch of a time on the clock. A wall clock that was set meanwhile moves the past too."""
        return self._wall() - (self._clock() - at)

    @contextlib.contextmanager
    def listening(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call ``wake`` on any thread after each sample and happening."""
        key = object()
        with self._lock:
            self._listeners[key] = wake
        try:
            yield
        finally:
            with self._lock:
                del self._listeners[key]

    def place(self, past: float) -> Place:
        """The place from which a listener reads the last ``past`` seconds; 0: the latest sample and nothing older."""
        with self._lock:
            since = self._clock() - past
            number = self._oldest
            while number < self._samples.end - 1 and self._began + self._samples[number][0] * TICK < since:
                number += 1
            happened = [one for one in self._happenings if one.at >= since]
            return Place(number, -1, self._happened - len(happened))

    def read(self, place: Place, most: int) -> list[Point]:
        """Up to ``most`` samples from the place on, which moves behind them. The first one has all models.

        A listener that fell behind the ring continues with the oldest sample that is kept.
        """
        with self._lock:
            place.sample = max(place.sample, self._oldest)
            count = min(most, self._samples.end - place.sample)
            return [self._point(place) for _ in range(count)]

    @property
    def _oldest(self) -> int:
        """Number of the oldest sample whose models are known."""
        return max(self._samples.first, self._known_from)

    def _point(self, place: Place) -> Point:
        """The next sample of a place. The caller holds the lock."""
        changed: dict[str, Held | None] = {}
        if place.change < self._changes.first:  # a new listener, or one that fell behind: all models anew
            changed |= dict.fromkeys(place.models)
            changed |= self._before
            place.models, place.change = dict(self._before), self._changes.first
        while place.change < self._changes.end and (row := self._changes[place.change])[0] <= place.sample:
            name = self._names[row[1]]
            changed[name] = _apply(place.models, name, Held(*row[2:]))
            place.change += 1
        ticks, *figures = self._samples[place.sample]
        place.sample += 1
        return Point(self._began + ticks * TICK, Sample(*figures), changed)

    def happenings(self, place: Place) -> list[Happening]:
        """The kept happenings from the place on, which moves behind them."""
        with self._lock:
            new = self._happened - place.happening
            place.happening = self._happened
            return list(self._happenings)[-new:] if new else []

    def _wake(self) -> None:
        with self._lock:
            listeners = tuple(self._listeners.values())
        for wake in listeners:
            wake()


def _apply(models: dict[str, Held], name: str, held: Held) -> Held | None:
    """Write a change into ``models``. Returns the model; None for one that is gone."""
    if held.rung == GONE:
        models.pop(name, None)
        return None
    models[name] = held
    return held
