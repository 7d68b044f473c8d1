"""Memory of processes over time: a thread that looks every 200 ms, and marks of what happened when.

with Sampler(server.pid) as sampler:
    with sampler.span("chat"):
        ...
sampler.record.peak("chat").pss
"""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.process import Memory, memory_of_all

INTERVAL = 0.2
"""Seconds between two samples."""
NONE = Memory(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """``at`` in seconds since the sampler started; ``processes`` in the order in which they were named."""

    at: float
    processes: tuple[Memory, ...]

    @property
    def memory(self) -> Memory:
        """The sum over all processes."""
        return functools.reduce(operator.add, self.processes, NONE)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened from ``at`` to ``until``, on the clock of the samples; the same for a moment."""

    name: str
    at: float
    until: float


@dataclass(slots=True)
class Record:
    """Samples, and marks in the order in which they ended. Names that are looked up should be given once."""

    samples: list[Sample] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def mark(self, name: str) -> Mark:
        """Raises KeyError when there is none of that name."""
        found = next((one for one in self.marks if one.name == name), None)
        if found is None:
            raise KeyError(f"nothing is marked {name!r}; marked: {', '.join(one.name for one in self.marks)}")
        return found

    def between(self, at: float, until: float) -> list[Sample]:
        """The samples of a time, or the one nearest to it when it was too short for any. ValueError when empty."""
        inside = [one for one in self.samples if at <= one.at <= until]
        return inside or [min(self.samples, key=lambda one: abs(one.at - (at + until) / 2))]

    def peak(self, name: str) -> Memory:
        """The largest (by ``pss``) while this was going on."""
        one = self.mark(name)
        return max((sample.memory for sample in self.between(one.at, one.until)), key=lambda memory: memory.pss)

    def end(self, name: str) -> Memory:
        """The last one while this was going on."""
        one = self.mark(name)
        return self.between(one.at, one.until)[-1].memory


class Sampler:
    """Samples while its ``with`` block runs. A process that has ended counts as nothing; what else goes wrong with
    reading is raised at the end of the block. Clock in seconds."""

    def __init__(
        self,
        *pids: int,
        interval: float = INTERVAL,
        read: Callable[[int], Memory] = memory_of_all,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.record = Record()
        self._pids = pids
        self.interval = interval
        self._read = read
        self._clock = clock
        self._started = 0.0
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._loop, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._started = self._clock()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    def event(self, name: str) -> None:
        """Mark a moment. Any thread."""
        self.record.marks.append(Mark(name, self.now, self.now))

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Mark what happens in the block, from its start to its end."""
        at = self.now
        try:
            yield
        finally:
            self.record.marks.append(Mark(name, at, self.now))

    def sample(self) -> Sample:
        """Look now."""
        return Sample(self.now, tuple(self._memory(pid) for pid in self._pids))

    def _memory(self, pid: int) -> Memory:
        try:
            return self._read(pid)
        except ProcessLookupError:
            return NONE

    def _loop(self) -> None:
        try:
            while True:
                self.record.samples.append(self.sample())
                if self._stopped.wait(self.interval):
                    break
            self.record.samples.append(self.sample())
        except Exception as error:
            self._failure = error
