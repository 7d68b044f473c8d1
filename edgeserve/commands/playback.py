"""The sound of answers on a loudspeaker, and how much of it was heard."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from edgeserve.messages import AudioEvent

ECHO_SECONDS = 0.3
"""Time in which a room still hears an answer that has ended."""


class Speaker(Protocol):
    """Plays one answer. A context manager: leaving it ends the sound."""

    @property
    def playing(self) -> bool: ...

    def __enter__(self) -> Speaker: ...

    def __exit__(self, *ignored: object) -> None: ...

    def add(self, event: AudioEvent) -> None: ...

    def finish(self) -> None: ...


class Playback:
    """One answer at a time. ``make`` makes the speaker of an answer; ``clock`` counts seconds.

    Any thread may read the properties; one thread calls the rest.
    """

    def __init__(self, make: Callable[[], Speaker], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self._speaker: Speaker | None = None
        self.item = ""
        """The item whose sound it is."""
        self._began = self._seconds = 0.0
        self._heard_at = float("-inf")

    @property
    def playing(self) -> bool:
        """Whether sound is left to play, or more may come."""
        return (speaker := self._speaker) is not None and speaker.playing

    @property
    def audible(self) -> bool:
        """Whether the room may hear an answer now."""
        if self.playing:
            self._heard_at = self._clock()
        return self._clock() - self._heard_at < ECHO_SECONDS

    def add(self, item: str, event: AudioEvent) -> None:
        """More sound of an item. The sound of another item ends."""
        if self._speaker is None or item != self.item:
            self.stop()
            self.item, self._seconds, self._began = item, 0.0, self._clock()
            self._speaker = self._make()
        self._speaker.add(event)
        self._seconds += len(event.pcm) / 2 / event.sample_rate

    def finish(self) -> None:
        """The answer has all its sound; it plays on."""
        if self._speaker is not None:
            self._speaker.finish()

    def stop(self) -> float | None:
        """End the sound. Returns the seconds that were heard; None where nothing played."""
        speaker, self._speaker = self._speaker, None
        if speaker is None:
            return None
        heard = min(self._clock() - self._began, self._seconds) if speaker.playing else None
        speaker.__exit__()
        return heard
