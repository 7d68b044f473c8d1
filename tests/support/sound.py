"""Sound as live transcription gets it: float32 samples, 16 kHz, mono."""

from __future__ import annotations

import array
import functools
import math

SECOND = 4 * 16_000
"""Bytes."""


def speech(seconds: float, loudness: float = 0.3) -> bytes:
    """A tone in syllables, four a second; without them it would be taken for noise after a while."""
    count = round(seconds * 16_000)
    return (_syllable(loudness) * (count // 4000 + 1))[: 4 * count]


@functools.cache
def _syllable(loudness: float) -> bytes:
    wave = (loudness * abs(math.sin(math.pi * at / 4000)) * math.sin(at * 0.3) for at in range(4000))
    return array.array("f", wave).tobytes()


def silence(seconds: float) -> bytes:
    return bytes(round(seconds * 16_000) * 4)


def rattle(seconds: float) -> bytes:
    """As loud as ``speech``, but never below zero: the fake detector takes it for noise."""
    return array.array("f", map(abs, array.array("f", speech(seconds)))).tobytes()


def pcm24(sound: bytes) -> bytes:
    """The sound as int16 at 24 kHz, by the nearest sample."""
    samples = array.array("f", sound)
    count = len(samples) * 3 // 2
    return array.array("h", (int(samples[at * 2 // 3] * 32767) for at in range(count))).tobytes()
