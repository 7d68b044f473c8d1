"""Utterances in the sound of a microphone: from the first speech to the pause behind the last."""

from __future__ import annotations

import array
import sys
from collections.abc import Iterable, Iterator

from edgeserve.live.session import PAUSE_SECONDS
from edgeserve.live.window import MAX_SECONDS, Window


def utterance(pieces: Iterable[bytes]) -> bytes:
    """The next utterance; empty where the sound ends before one. int16 little-endian mono at 16 kHz, in and out.

    An utterance of 30 s ends there.
    """
    window, taken = Window(), bytearray()
    for piece in pieces:
        spoke = window.has_speech
        window.append(_floats(piece))
        taken += piece
        kept = round(window.seconds * 16_000) * 2  # the window drops silence before speech
        if not spoke:
            del taken[: len(taken) - kept]
        if window.has_speech and (window.quiet >= PAUSE_SECONDS or window.seconds >= MAX_SECONDS - 1):
            return bytes(taken)
    return bytes(taken) if window.has_speech else b""


def _floats(piece: bytes) -> bytes:
    samples = array.array("h", piece)
    if sys.byteorder == "big":
        samples.byteswap()
    floats = array.array("f", (one / 32_768 for one in samples))
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


def utterances(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """All utterances of a sound."""
    rest = iter(pieces)
    while sound := utterance(rest):
        yield sound
