"""Audio on its way through a speech-to-text engine: a few windows of it at a time, never all."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgeserve.engine import Cancel
from edgeserve.messages import INPUT_SAMPLE_RATE, Audio
from engines.asr.segments import FRAME, frames

GAP_FRAMES = frames(0.3)
"""What is shorter, of silence within speech or of speech at an edge, does not count when edges are looked for."""
PAUSE_FRAMES = frames(0.7)
"""What may part a segment; less than what is left of a long silence."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples to be listened to, float32 [n], and the number of the first of them in the file. ``voiced``: of each
    FRAME of them whether it is speech; empty where that is not known."""

    start: int
    samples: Any
    voiced: Sequence[bool] = ()


Split = Callable[[Iterable[Any]], Iterator[Stretch]]
"""Audio, array by array, to the stretches that are listened to, in order and disjoint."""


class Source:
    """The audio's pieces as arrays, float32 [n]; ends early when cancelled. ``seconds`` came by so far."""

    def __init__(self, audio: Audio, cancel: Cancel) -> None:
        self._audio, self._cancel = audio, cancel
        self._samples = 0

    @property
    def seconds(self) -> float:
        return self._samples / INPUT_SAMPLE_RATE

    def __iter__(self) -> Iterator[Any]:
        import numpy

        for piece in self._audio.pieces():
            if self._cancel.is_set():
                return
            samples = numpy.frombuffer(piece, "<f4")
            self._samples += len(samples)
            yield samples


class Tape:
    """Samples number ``start`` to ``end`` of something longer."""

    def __init__(self) -> None:
        import numpy

        self.start = 0
        self._samples = numpy.empty(0, numpy.float32)

    @property
    def end(self) -> int:
        return self.start + len(self._samples)

    def add(self, samples: Any) -> None:
        import numpy

        self._samples = numpy.concatenate([self._samples, numpy.asarray(samples, numpy.float32)])

    def read(self, low: int, high: int) -> Any:
        """Those of them that are held."""
        return self._samples[max(0, low - self.start) : max(0, high - self.start)]

    def forget(self, before: int) -> None:
        if before > self.start:
            # A copy: a slice would hold on to all of it.
            self._samples = self._samples[before - self.start :].copy()
            self.start = before


def whole(arrays: Iterable[Any]) -> Iterator[Stretch]:
    """All of the audio."""
    at = 0
    for samples in arrays:
        yield Stretch(at, samples)
        at += len(samples)


class Joined:
    """Stretches end to end, read forwards in windows, and what their times are in the file."""

    def __init__(self, stretches: Iterator[Stretch]) -> None:
        self._stretches = stretches
        self._tape, self._voiced = Tape(), Tape()
        self._starts: list[int] = []
        self._places: list[int] = []
        """Of each joint here, where what follows it begins in the file."""

    def read(self, low: int, high: int) -> Any:
        """Fewer where the audio ends. What lies before ``low`` is forgotten."""
        self._tape.forget(min(low, self._tape.end))
        while self._tape.end < high and (stretch := next(self._stretches, None)) is not None:
            here = self._tape.end
            if not self._starts or stretch.start != self._places[-1] + here - self._starts[-1]:
                self._starts.append(here)
                self._places.append(stretch.start)
            self._tape.add(stretch.samples)
            self._voiced.add(stretch.voiced)
        self._voiced.forget(min(low // FRAME, self._voiced.end))
        return self._tape.read(low, high)

    def pauses(self, start: int, end: int) -> list[int]:
        """The middle of each pause between speech and speech of ``start`` to ``end``; every joint lies in one."""
        import numpy

        voiced = self._speech(start, end)
        gaps = numpy.flatnonzero(numpy.diff(voiced) > PAUSE_FRAMES)
        return [(int(voiced[at]) + 1 + int(voiced[at + 1])) * FRAME // 2 for at in gaps]

    def place(self, start: int, end: int) -> tuple[float, float]:
        """Seconds in the file at which the speech from ``start`` to ``end`` begins and ends."""
        start, end = self.spoken(start, end)
        first = max(0, bisect.bisect_right(self._starts, start) - 1)
        last = max(first, bisect.bisect_left(self._starts, end) - 1)
        begins, ends = (self._places[at] - self._starts[at] for at in (first, last))
        return (begins + start) / INPUT_SAMPLE_RATE, (ends + end) / INPUT_SAMPLE_RATE

    def spoken(self, start: int, end: int) -> tuple[int, int]:
        """The same without the silence at its ends, nor a last or first moment of what is said beside it."""
        voiced = self._speech(start, end)
        if not len(voiced):
            return start, end
        return max(start, int(voiced[0]) * FRAME), min(end, (int(voiced[-1]) + 1) * FRAME)

    def reach(self, start: int, end: int, low: int, high: int) -> tuple[int, int]:
        """``start`` to ``end``, widened within ``low`` to ``high`` to all of the speech that begins and ends it."""
        import numpy

        first = low // FRAME
        voiced = first + numpy.flatnonzero(self._voiced.read(first, -(-high // FRAME)))
        for run in numpy.split(voiced, numpy.flatnonzero(numpy.diff(voiced) > GAP_FRAMES) + 1):
            if len(run):
                begins, ends = int(run[0]) * FRAME, (int(run[-1]) + 1) * FRAME
                start = begins if begins < start < ends else start
                end = ends if begins < end < ends else end
        return max(low, start), min(high, end)

    def _speech(self, start: int, end: int) -> Any:
        """Numbers of the frames that are speech, int [n]."""
        import numpy

        low, high = start // FRAME, -(-end // FRAME)
        voiced = low + numpy.flatnonzero(self._voiced.read(low, high))
        runs = numpy.split(voiced, numpy.flatnonzero(numpy.diff(voiced) > GAP_FRAMES) + 1)
        least = min(GAP_FRAMES, max(map(len, runs)))
        if len(runs[0]) < least and runs[0][0] == low:
            del runs[0]
        if len(runs[-1]) < least and runs[-1][-1] == high - 1:
            del runs[-1]
        return numpy.concatenate(runs)
