"""Audio on its way through a speech-to-text engine: a few windows at a time, never the whole recording."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engine import Cancel
from edgeserve.engines.asr.segments import FRAME, frames
from edgeserve.messages import INPUT_SAMPLE_RATE, Audio

GAP_FRAMES = frames(0.3)
"""Silences within speech, and speech at an edge, count from this length on when edges are looked for."""
PAUSE_FRAMES = frames(0.7)
"""Pauses longer than this part a segment. The remainder of a long silence that was cut out is longer."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples to transcribe.

    ``start``: place of the first sample in the file. ``samples``: float32 [n]. ``voiced``: for each FRAME of samples
    whether the frame is speech; empty without a detector.
    """

    start: int
    samples: Any
    voiced: Sequence[bool] = ()

    @property
    def seconds(self) -> tuple[float, float]:
        """Start and end in the file."""
        start = self.start / INPUT_SAMPLE_RATE
        return start, start + len(self.samples) / INPUT_SAMPLE_RATE


Split = Callable[[Iterable[Any]], Iterator[Stretch | None]]
"""Cuts audio, array by array, into the stretches to transcribe, in order and disjoint.

None in a long silence, and for an empty array: other requests may have their turn.
"""


class Source:
    """The pieces of an audio as arrays, float32 [n], some of them empty. A cancelled request ends them early."""

    def __init__(self, audio: Audio, cancel: Cancel) -> None:
        self._audio, self._cancel = audio, cancel
        self._samples = 0

    @property
    def seconds(self) -> float:
        """Duration of the audio that was read so far."""
        return self._samples / INPUT_SAMPLE_RATE

    def __iter__(self) -> Iterator[Any]:
        import numpy

        for piece in self._audio.pieces():
            if self._cancel.is_set():
                return
            # A file of floats may hold NaN or infinity, and a resampler goes beyond 1.
            samples = numpy.clip(numpy.nan_to_num(numpy.frombuffer(piece, "<f4")), -1.0, 1.0)
            self._samples += len(samples)
            yield samples


class Tape:
    """A part of a longer sequence of samples: those numbered ``start`` to ``end``. It holds the arrays that it gets."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self._pieces: deque[tuple[int, Any]] = deque()
        """Arrays, float32 [n], each with the number of its first sample."""

    def add(self, samples: Any) -> None:
        import numpy

        self._pieces.append((self.end, numpy.asarray(samples, numpy.float32)))
        self.end += len(samples)

    def read(self, low: int, high: int) -> Any:
        """The samples from ``low`` to ``high``, without those that the tape does not hold."""
        import numpy

        low = max(low, self.start)
        parts = [one[max(0, low - at) : high - at] for at, one in self._pieces if at < high and low < at + len(one)]
        return parts[0] if len(parts) == 1 else numpy.concatenate([numpy.empty(0, numpy.float32), *parts])

    def forget(self, before: int) -> None:
        self.start = max(self.start, before)
        self.end = max(self.start, self.end)
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= self.start:
            self._pieces.popleft()
        if self._pieces:
            at, samples = self._pieces[0]
            if 2 * (self.start - at) >= len(samples):
                # A copy: a slice would keep the whole array in memory.
                self._pieces[0] = self.start, samples[self.start - at :].copy()


def whole(arrays: Iterable[Any]) -> Iterator[Stretch | None]:
    """The whole audio, a stretch for each array; None for an empty one."""
    at = 0
    for samples in arrays:
        yield Stretch(at, samples) if len(samples) else None
        at += len(samples)


def quietest(window: Any) -> int:
    """The middle of the quietest 20 ms in the last fifth of a window, in samples from the window's start."""
    import numpy

    frame = INPUT_SAMPLE_RATE // 50
    begin = len(window) * 4 // 5
    tail = window[begin:]
    energy = (tail[: len(tail) // frame * frame].reshape(-1, frame) ** 2).sum(axis=1)
    return begin + int(numpy.argmin(energy)) * frame + frame // 2


class Joined:
    """Stretches end to end, read forwards in windows. Places in them are converted to times in the file."""

    def __init__(self, stretches: Iterator[Stretch | None]) -> None:
        self._stretches = stretches
        self._tape, self._voiced = Tape(), Tape()
        self._starts: list[int] = []
        """Joints: places in the joined samples where the file does not continue without a gap."""
        self._places: list[int] = []
        """Place in the file of the first sample after each joint."""

    def read(self, low: int, high: int) -> Any:
        """Samples ``low`` to ``high``, fewer where the audio ends, or where some were forgotten."""
        for _ in self.hear(high):
            pass
        return self._tape.read(low, high)

    def hear(self, until: int) -> Iterator[None]:
        """Hear the audio up to a place. None in a long silence, where other requests may have their turn."""
        while self._tape.end < until:
            for stretch in self._stretches:
                if stretch is not None:
                    self._add(stretch)
                    break
                yield None
            else:
                return

    def _add(self, stretch: Stretch) -> None:
        here = self._tape.end
        if not self._starts or stretch.start != self._places[-1] + here - self._starts[-1]:
            self._starts.append(here)
            self._places.append(stretch.start)
        self._tape.add(stretch.samples)
        self._voiced.add(stretch.voiced)

    def forget(self, samples: int, speech: int) -> None:
        """Forget the samples before a place, and where speech is before another place."""
        self._tape.forget(min(samples, self._tape.end))
        self._voiced.forget(min(speech // FRAME, self._voiced.end))

    def speech_seconds(self, start: int, end: int) -> float | None:
        """Seconds of speech from ``start`` to ``end``; None without a detector."""
        voiced = self._voiced.read(start // FRAME, -(-end // FRAME))
        return float(voiced.sum()) * FRAME / INPUT_SAMPLE_RATE if len(voiced) else None

    def silences(self, start: int, end: int) -> list[tuple[int, int]]:
        """Begin and end of each silence from ``start`` to ``end``, in order; none without a detector."""
        import numpy

        low = -(-start // FRAME)
        voiced = self._voiced.read(low, end // FRAME)
        edges = numpy.flatnonzero(numpy.diff(voiced, prepend=1, append=1)) + low
        return [(int(begin) * FRAME, int(stop) * FRAME) for begin, stop in edges.reshape(-1, 2)]

    def pauses(self, start: int, end: int) -> list[int]:
        """The middle of each pause between speech and speech from ``start`` to ``end``. Every joint lies in a pause."""
        import numpy

        voiced = self._speech(start, end)
        gaps = numpy.flatnonzero(numpy.diff(voiced) > PAUSE_FRAMES)
        return [(int(voiced[at]) + 1 + int(voiced[at + 1])) * FRAME // 2 for at in gaps]

    def place(self, start: int, end: int) -> tuple[float, float]:
        """Start and end, in seconds of the file, of the speech from ``start`` to ``end``."""
        start, end = self.spoken(start, end)
        first = max(0, bisect.bisect_right(self._starts, start) - 1)
        last = max(first, bisect.bisect_left(self._starts, end) - 1)
        begins, ends = (self._places[at] - self._starts[at] for at in (first, last))
        return (begins + start) / INPUT_SAMPLE_RATE, (ends + end) / INPUT_SAMPLE_RATE

    def spoken(self, start: int, end: int) -> tuple[int, int]:
        """``start`` to ``end`` without the silence at both ends, and without a moment of neighbouring speech there."""
        voiced = self._speech(start, end)
        if not len(voiced):
            return start, end
        return max(start, int(voiced[0]) * FRAME), min(end, (int(voiced[-1]) + 1) * FRAME)

    def reach(self, start: int, end: int, low: int, high: int) -> tuple[int, int]:
        """``start`` to ``end``, widened within ``low`` to ``high`` to the whole speech that either of them cuts."""
        for run in self._runs(low // FRAME, -(-high // FRAME)):
            if len(run):
                begins, ends = int(run[0]) * FRAME, (int(run[-1]) + 1) * FRAME
                start = begins if begins < start < ends else start
                end = ends if begins < end < ends else end
        return max(low, start), min(high, end)

    def _speech(self, start: int, end: int) -> Any:
        """Numbers of the frames that are speech, int [n], without short runs at both edges."""
        import numpy

        low, high = start // FRAME, -(-end // FRAME)
        runs = self._runs(low, high)
        least = min(GAP_FRAMES, max(map(len, runs)))
        if len(runs[0]) < least and runs[0][0] == low:
            del runs[0]
        if len(runs[-1]) < least and runs[-1][-1] == high - 1:
            del runs[-1]
        return numpy.concatenate(runs)

    def _runs(self, low: int, high: int) -> list[Any]:
        """Numbers of the frames that are speech, int [n] each, parted at silences; one empty run without speech."""
        import numpy

        voiced = low + numpy.flatnonzero(self._voiced.read(low, high))
        return list(numpy.split(voiced, numpy.flatnonzero(numpy.diff(voiced) > GAP_FRAMES) + 1))
