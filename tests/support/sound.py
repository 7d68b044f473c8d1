"""Sound as live transcription gets it: float32 samples, 16 kHz, mono."""

from __future__ import annotations

import array
import math

SECOND = 4 * 16_000
"""Bytes."""


def speech(seconds: float, loudness: float = 0.3) -> bytes:
    """A tone in syllables, four a second; without them it would be taken for noise after a while."""
    envelope = [loudness * abs(math.sin(math.pi * at / 4000)) * math.sin(at * 0.3) for at in range(4000)]
    count = round(seconds * 16_000)
    return array.array("f", (envelope * (count // 4000 + 1))[:count]).tobytes()


def silence(seconds: float) -> bytes:
    return bytes(round(seconds * 16_000) * 4)
