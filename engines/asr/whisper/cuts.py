"""Long audio cut into passages of one window each, at silences, so that windows can be decoded together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from edgeserve.engines.asr.stretches import quietest
from edgeserve.engines.asr.whisper.features import HOP, WINDOW_FRAMES
from edgeserve.engines.asr.whisper.joined import Joined
from edgeserve.messages import INPUT_SAMPLE_RATE

LONGEST = WINDOW_FRAMES * HOP
"""Samples of a window."""
SHARES = ((0.2, 0.2), (0.5, 0.1))
"""Parts of a window, from its end, that are looked at for a silence, one after the other, with its least seconds."""


class Passage(NamedTuple):
    """Frames of features from ``start`` to ``end``. None: to the end of the audio, which nobody knows yet.

    ``read``: frames at its start that were transcribed before.
    """

    start: int
    end: int | None
    read: int = 0


def passages(stretches: Joined, start: int = 0) -> Iterator[Passage | None]:
    """The audio from a frame on, in passages of at most one window, and None in a long silence as ``Joined.hear``."""
    while True:
        until = start * HOP + LONGEST + HOP
        yield from stretches.hear(until)
        if len(window := stretches.read(start * HOP, until)) <= LONGEST:
            break
        end = cut(stretches, start * HOP, window[:LONGEST]) // HOP
        yield Passage(start, end)
        start = end
    if len(window):
        yield Passage(start, start + -(-len(window) // HOP))


def cut(stretches: Joined, start: int, window: Any) -> int:
    """The end of a window from ``start``: in its longest silence near its end, else at its quietest moment there."""
    end = start + LONGEST
    for share, least in SHARES:
        found = stretches.silences(round(end - share * LONGEST), end)
        first, last = max(found, key=lambda one: one[1] - one[0], default=(0, 0))
        if last - first >= least * INPUT_SAMPLE_RATE:
            return (first + last) // 2
    return start + quietest(window)
