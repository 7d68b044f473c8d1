"""Silence that a recording leaves out: senders skip silent packets (Opus DTX), or a tab was muted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from av.audio.frame import AudioFrame

GAP_SECONDS = 0.02
"""Shortest gap, about one packet of speech. Rounding of times to milliseconds is no gap."""
BACK_SECONDS = 1.0
"""Larger steps back in time begin a new recording, as in joined files."""


def in_seconds(ticks: int, base: Fraction) -> float:
    """A time of FFmpeg in seconds. ``base``: seconds of one tick."""
    return ticks * base.numerator / base.denominator  # a product of fractions takes ten times as long


class Gaps:
    """Follows the times of packets or frames, in seconds. ``end``: length of the sound so far, with its gaps."""

    def __init__(self) -> None:
        self.end = 0.0
        self._origin: float | None = None

    def before(self, start: float | None, seconds: float) -> float:
        """Seconds missing before a packet that begins at ``start`` and lasts ``seconds``."""
        missing = 0.0
        if start is not None:
            if self._origin is None or start - self._origin < self.end - BACK_SECONDS:
                self._origin = start - self.end
            late = start - self._origin - self.end
            missing = late if late > GAP_SECONDS else 0.0
        self.end += missing + seconds
        return missing


def silence(like: AudioFrame, seconds: float) -> Iterator[AudioFrame]:
    """Silent frames of the same form, of up to a second each."""
    import av

    left = round(seconds * like.sample_rate)
    while left > 0:
        count = min(left, like.sample_rate)
        frame = av.AudioFrame(like.format.name, like.layout.name, count)
        frame.sample_rate = like.sample_rate
        for plane in frame.planes:
            plane.update(bytes([128 if like.format.name.startswith("u8") else 0]) * plane.buffer_size)
        left -= count
        yield frame
