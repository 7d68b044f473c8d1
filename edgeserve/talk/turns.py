"""Turns of speech in a sound: where one begins, where it may be over, and where it is.

Times are seconds from the start of the sound. No clock: silence is counted in samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgeserve.live.speech import FRAME, FRAME_SECONDS, SpeechGate, levels

SAMPLE_BYTES = 4
FRAME_BYTES = FRAME * SAMPLE_BYTES
STARTS = 4
"""Frames of speech within ``STARTS_WITHIN`` that begin a turn. Fewer are a click."""
STARTS_WITHIN = 8
LULL_SECONDS = 0.18
"""Seconds without speech after which the turn may be over, so that its words are worth finding ahead."""

Kind = Literal["started", "lull", "resumed", "stopped"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Seconds of silence that end a turn, and seconds of sound kept before its first speech.

    ``semantic``: the words decide (``TurnFinder.finish``); ``silence`` is then the longest wait for them.
    """

    silence: float = 0.5
    prefix: float = 0.3
    semantic: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """News of a turn: its kind, and the time that it is about."""

    kind: Kind
    at: float


class TurnFinder:
    """Finds turns in the sound of one client.

    The marks of a turn come in the order started, any number of lull and resumed, stopped.
    """

    def __init__(self, rules: Rules, since: float = 0.0) -> None:
        """``since``: the time at which the first sample stands."""
        self.rules = rules
        self._since = since
        self.speaking = False
        """Whether a turn is under way."""
        self.lull = False
        self.speech_end = since
        """End of the last frame of speech."""
        self._gate = SpeechGate()
        self._held = b""
        self._frames = 0
        self._latest = bytearray()

    @property
    def now(self) -> float:
        """The end of the sound that was looked at."""
        return self._since + self._frames * FRAME_SECONDS

    def feed(self, data: bytes) -> list[Mark]:
        """News in float32 samples at 16 kHz."""
        data = self._held + data
        whole = len(data) // FRAME_BYTES * FRAME_BYTES
        self._held = data[whole:]
        marks: list[Mark] = []
        for flag in self._gate.flags(levels(memoryview(data[:whole]).cast("f"))):
            self._frames += 1
            self._latest.append(flag)
            del self._latest[:-STARTS_WITHIN]
            if flag:
                self.speech_end = self.now
            marks += self._speaking(flag) if self.speaking else self._silent()
        return marks

    def finish(self) -> list[Mark]:
        """End the turn now, by its words. Nothing where no turn has come to a lull."""
        return self._stop() if self.speaking and self.lull else []

    def clear(self) -> None:
        """Forget the turn under way."""
        self.speaking = self.lull = False
        self._latest.clear()

    def _silent(self) -> list[Mark]:
        if self._latest.count(1) < STARTS:
            return []
        self.speaking, self.lull = True, False
        first = self.now - (len(self._latest) - self._latest.index(1)) * FRAME_SECONDS
        return [Mark("started", max(self._since, first - self.rules.prefix))]

    def _speaking(self, flag: int) -> list[Mark]:
        quiet = self.now - self.speech_end
        if flag and self.lull:
            self.lull = False
            return [Mark("resumed", self.now)]
        if quiet + 1e-9 >= self.rules.silence:
            return self._stop()
        if not self.lull and quiet + 1e-9 >= min(LULL_SECONDS, self.rules.silence):
            self.lull = True
            return [Mark("lull", self.now)]
        return []

    def _stop(self) -> list[Mark]:
        self.clear()
        return [Mark("stopped", self.now)]
