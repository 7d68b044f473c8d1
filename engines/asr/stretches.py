"""Audio on its way through a speech-to-text engine: a few windows at a time, never the whole recording."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from edgeserve.dataclass import dataclass
from edgeserve.engine import Cancel
from edgeserve.messages import INPUT_SAMPLE_RATE, Audio


class Place(NamedTuple):
    """A place in an audio from which to read on.

    ``at``: number of the first sample. ``detector``: what a detector knows there, as JSON values; None without one.
    """

    at: int = 0
    detector: Any = None


START = Place()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples to transcribe.

    ``start``: place of the first sample in the file. ``samples``: float32 [n]. ``voiced``: for each FRAME of samples
    whether the frame is speech; empty without a detector. ``detector``: as in ``Place``, in front of the stretch.
    """

    start: int
    samples: Any
    voiced: Sequence[bool] = ()
    detector: Any = None

    @property
    def place(self) -> Place:
        """The place from which this stretch and all behind it come again."""
        return Place(self.start, self.detector)

    @property
    def seconds(self) -> tuple[float, float]:
        """Start and end in the file."""
        start = self.start / INPUT_SAMPLE_RATE
        return start, start + len(self.samples) / INPUT_SAMPLE_RATE


Split = Callable[[Iterable[Any], Place], Iterator[Stretch | None]]
"""Cuts audio from a place on, array by array, into the stretches to transcribe, in order and disjoint.

None in a long silence, and for an empty array: other requests may have their turn.
"""


class Source:
    """The pieces of an audio as arrays, float32 [n], some of them empty. A cancelled request ends them early.

    ``first``: number of the first sample that is given. Sound is decoded from its start on, whatever is left out.
    """

    def __init__(self, audio: Audio, cancel: Cancel, first: int = 0) -> None:
        self._audio, self._cancel, self._first = audio, cancel, first
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
            samples = numpy.frombuffer(piece, "<f4")
            samples, self._samples = samples[max(0, self._first - self._samples) :], self._samples + len(samples)
            # A file of floats may hold NaN or infinity, and a resampler goes beyond 1.
            yield numpy.clip(numpy.nan_to_num(samples), -1.0, 1.0)


class Tape:
    """A part of a longer sequence of samples: those numbered ``start`` to ``end``. It holds the arrays that it gets."""

    def __init__(self, start: int = 0) -> None:
        self.start = self.end = start
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


def whole(arrays: Iterable[Any], place: Place = START) -> Iterator[Stretch | None]:
    """The whole audio, a stretch for each array; None for an empty one."""
    at = place.at
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
