"""Where there is speech: an energy gate over a floor that follows the noise. The one place to swap it for a model.

Enough here, since it only decides when to listen and when an utterance has ended; what was said is the engine's
business. Plain Python: some 2 ms of work for a second of sound, and no array library in the server's process.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator

from edgeserve.messages import INPUT_SAMPLE_RATE

FRAME = 480
FRAME_SECONDS = FRAME / INPUT_SAMPLE_RATE
QUIETEST = 0.0015
"""Root mean square, -56 dBFS: nothing below is taken for speech."""
ABOVE_FLOOR = 3.0
"""Speech is this many times (10 dB) louder than the noise."""
RISE = 1.005
"""What the floor rises by from frame to frame, 1.4 dB a second; it falls at once, as between two syllables."""


class SpeechGate:
    """Looks at one sound, frame by frame (30 ms)."""

    def __init__(self) -> None:
        self._floor = QUIETEST / ABOVE_FLOOR

    def flags(self, levels: Iterator[float]) -> bytes:
        """1 for each frame that is speech, 0 for the others, from their root mean squares."""
        return bytes(self._is_speech(level) for level in levels)

    def _is_speech(self, level: float) -> bool:
        self._floor = min(level, self._floor * RISE) if level else self._floor
        self._floor = max(self._floor, QUIETEST / ABOVE_FLOOR)
        return level > self._floor * ABOVE_FLOOR


def levels(samples: memoryview[float]) -> Iterator[float]:
    """The root mean square of each whole frame of float32 samples."""
    for start in range(0, len(samples) - FRAME + 1, FRAME):
        frame = samples[start : start + FRAME].tolist()
        yield math.sqrt(sum(map(operator.mul, frame, frame)) / FRAME)
