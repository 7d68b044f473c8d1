"""The stretches of speech of an audio end to end, as Whisper reads them."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from edgeserve.engines.asr.segments import FRAME, frames
from edgeserve.engines.asr.stretches import Place, Stretch, Tape
from edgeserve.messages import INPUT_SAMPLE_RATE

GAP_FRAMES = frames(0.3)
"""Silences within speech, and speech at an edge, count from this length on when edges are looked for."""
PAUSE_FRAMES = frames(0.7)
"""Pauses longer than this part a segment. The remainder of a long silence that was cut out is longer."""
VOICED = "1"
"""Stands for a frame of speech in what is left."""


class Joined:
    """Stretches end to end, read forwards in windows. Places in them are converted to times in the file.

    ``known``: what another one ``left`` in front of these stretches.
    """

    def __init__(self, stretches: Iterator[Stretch | None], known: Mapping[str, Any] | None = None) -> None:
        known = known or {"at": 0, "low": 0, "voiced": "", "starts": [], "places": []}
        self._stretches = stretches
        self._tape, self._voiced = Tape(known["at"]), Tape(known["low"])
        self._voiced.add([one == VOICED for one in known["voiced"]])
        self._starts: list[int] = known["starts"]
        """Joints: places in the joined samples where the file does not continue without a gap."""
        self._places: list[int] = known["places"]
        """Place in the file of the first sample after each joint."""
        self._held = deque[tuple[int, Place]]()
        """The stretches that reach beyond the start of the tape: where each begins here, and in the file."""

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
        self._held.append((here, stretch.place))
        if not self._starts or stretch.start != self._places[-1] + here - self._starts[-1]:
            self._starts.append(here)
            self._places.append(stretch.start)
        self._tape.add(stretch.samples)
        self._voiced.add(stretch.voiced)

    def forget(self, samples: int, speech: int) -> None:
        """Forget the samples before a place, and where speech is before another place."""
        self._tape.forget(min(samples, self._tape.end))
        self._voiced.forget(min(speech // FRAME, self._voiced.end))
        while len(self._held) > 1 and self._held[1][0] <= self._tape.start:
            self._held.popleft()

    def left(self) -> tuple[Place, dict[str, Any]]:
        """The place in the file from which another one has to read, and what it has to know, as JSON values.

        It then has all that was not forgotten. Call this once something was heard.
        """
        at, place = self._held[0]
        low = min(self._voiced.start, at // FRAME)
        voiced = self._voiced.read(low, at // FRAME)
        first = max(0, bisect.bisect_right(self._starts, low * FRAME) - 1)
        last = bisect.bisect_right(self._starts, at)
        return place, {
            "at": at,
            "low": low,
            "voiced": "".join(VOICED if one else "0" for one in voiced),
            "starts": self._starts[first:last],
            "places": self._places[first:last],
        }

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
