"""Spans of speech from the probabilities of speech, one for each 32 ms. No audio and no runtime here.

The thresholds are those of Silero (snakers4/silero-vad ``utils_vad.py``): speech begins at a probability of 0.5, and
ends where the probability stays below 0.35.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from edgeserve.dataclass import dataclass
from edgeserve.messages import INPUT_SAMPLE_RATE

FRAME = 512
"""Samples that one probability stands for."""
BEGINS, ENDS = 0.5, 0.35
SHORTEST_FRAMES = 3
"""Shorter speech is a click, and is left out."""
PAUSE_FRAMES = 5
"""Length, in frames, of the quietest place; speech that is too long is cut in the middle of this place."""


def frames(seconds: float) -> int:
    """Number of whole frames in so many seconds."""
    return int(seconds * INPUT_SAMPLE_RATE / FRAME)


@dataclass(frozen=True, slots=True)
class Rules:
    """Lengths in frames. Raises ValueError where they contradict each other.

    - silence: the shortest silence that parts two spans, or is left out at an end of the audio; at least two pads.
    - pad: the part of such a silence that stays at each side of the speech.
    - longest: the longest span, pads included.
    """

    silence: int
    pad: int
    longest: int

    def __post_init__(self) -> None:
        if self.silence < 2 * self.pad or self.longest < 4 * (self.pad + PAUSE_FRAMES):
            raise ValueError(f"{self}: silence must hold two pads, and longest leave room beside them")


class Span(NamedTuple):
    """The first frame, one past the last frame, and for each frame whether it is speech."""

    low: int
    high: int
    voiced: Sequence[bool]


class Segmenter:
    """Finds spans, in order and disjoint, and gives each span as soon as it is certain.

    Two spans that touch are parts of one speech that was too long. ``state``: what another one had found before.
    """

    def __init__(self, rules: Rules, state: Mapping[str, Any] | None = None) -> None:
        self._rules = rules
        self._at = 0
        self._chances: list[float] = []
        """Probabilities of the frames from ``_start`` on, within a span."""
        self._voiced: list[bool] = []
        """Whether each of these frames is speech."""
        self._start = 0
        self._free = 0
        """First frame at which the next span may begin."""
        self._within = self._speaking = False
        self._heard = 0
        """Frames of speech in this span."""
        self._until = 0
        """One past the last frame of speech."""
        vars(self).update(state or {})

    def state(self) -> dict[str, Any]:
        """All that it knows of the audio so far, as JSON values."""
        known = {name: value for name, value in vars(self).items() if name != "_rules"}
        return known | {"_chances": [*self._chances], "_voiced": [*self._voiced]}

    @property
    def needed(self) -> int:
        """No later span begins before this frame."""
        return self._start if self._within else max(self._free, self._at - self._rules.silence)

    def feed(self, chances: Iterable[float]) -> Iterator[Span]:
        for chance in chances:
            self._speaking = chance >= (ENDS if self._speaking else BEGINS)
            if self._speaking and not self._within:
                self._begin()
            self._at += 1
            if self._within:
                self._chances.append(chance)
                self._voiced.append(self._speaking)
                if self._speaking:
                    self._heard += 1
                    self._until = self._at
                if self._at - self._until >= self._rules.silence:
                    yield from self._finish(self._until + self._rules.pad)
                elif self._at - self._start >= self._rules.longest:
                    yield self._cut()

    def end(self) -> Iterator[Span]:
        """The span that is under way when the audio ends."""
        if self._within:
            yield from self._finish(self._at)

    def _begin(self) -> None:
        short = self._at - self._until < self._rules.silence
        self._start = self._free if short else max(self._free, self._at - self._rules.pad)
        self._chances = [0.0] * (self._at - self._start)
        self._voiced = [False] * (self._at - self._start)
        self._within, self._heard = True, 0

    def _finish(self, end: int) -> Iterator[Span]:
        self._within = False
        if self._heard >= SHORTEST_FRAMES:
            self._free = end
            yield Span(self._start, end, self._voiced[: end - self._start])

    def _cut(self) -> Span:
        """Cut the span in the quietest place of its second half; the rest begins the next span."""
        half = len(self._chances) // 2
        sums = [sum(self._chances[at : at + PAUSE_FRAMES]) for at in range(half, len(self._chances) - PAUSE_FRAMES)]
        least = half + min(range(len(sums)), key=sums.__getitem__) + PAUSE_FRAMES // 2
        span = Span(self._start, self._start + least, self._voiced[:least])
        self._start = self._free = span.high
        self._chances, self._voiced = self._chances[least:], self._voiced[least:]
        self._within, self._heard = self._until > self._start, SHORTEST_FRAMES  # the end of a word is no click
        return span
