"""Voice activity: an energy gate over a floor that follows the noise.

The gate only decides when to listen and when an utterance has ended; the engine hears the words. It is plain Python, 2
ms of work for a second of sound, so that the server's process needs no array library.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator

from edgeserve.messages import INPUT_SAMPLE_RATE

FRAME = 480
FRAME_SECONDS = FRAME / INPUT_SAMPLE_RATE
QUIETEST = 0.0015
"""Root mean square of the quietest speech, -56 dBFS."""
ABOVE_FLOOR = 3.0
"""Speech is this many times (10 dB) louder than the noise."""
RISE = 1.005
"""Rise of the floor from frame to frame, 1.4 dB a second. The floor falls at once."""


class SpeechGate:
    """The gate of one sound. A frame has some 30 ms. Speech is ``above`` times louder than the noise."""

    def __init__(self, above: float = ABOVE_FLOOR) -> None:
        self._above = above
        self._floor = QUIETEST / ABOVE_FLOOR

    def flags(self, levels: Iterator[float]) -> bytes:
        """1 for each frame of speech, 0 for each other frame, from the frames' root mean squares."""
        return bytes(self._is_speech(level) for level in levels)

    def _is_speech(self, level: float) -> bool:
        self._floor = min(level, self._floor * RISE) if level else self._floor
        self._floor = max(self._floor, QUIETEST / ABOVE_FLOOR)
        return level > self._floor * self._above


def levels(samples: memoryview[float], size: int = FRAME) -> Iterator[float]:
    """The root mean square of each whole frame of ``size`` float32 samples."""
    for start in range(0, len(samples) - size + 1, size):
        frame = samples[start : start + size].tolist()
        yield math.sqrt(sum(map(operator.mul, frame, frame)) / size)
